"""What is read out of the text of an error: class, message and frame, whatever language left it behind."""

from __future__ import annotations

from families import run_in_one_test

from rqtui.text.tracebacks import CUT, HALF_CHARS, parse_traceback, summarize_error, truncate_error_middle

PYTHON = """Traceback (most recent call last):
  File "/app/venv/lib/python3.11/site-packages/worker/run.py", line 12, in perform
    rv = job.perform()
         ^^^^^^^^^^^^^
  File "/srv/releases/20240102/billing/charge.py", line 88, in charge
    raise CardDeclined(f"card of {customer} was declined")
billing.charge.CardDeclined: card of cus_NffrFeUfNV was declined
"""
CHAINED = """Traceback (most recent call last):
  File "/app/a.py", line 1, in f
    int(x)
ValueError: invalid literal

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/b.py", line 2, in g
    raise BadRow() from error
b.BadRow: row 7
"""
LIBRARY = """Traceback (most recent call last):
  File "/app/hooks.py", line 31, in deliver
    response.raise_for_status()
  File "/app/venv/lib/python3.11/site-packages/httpx/_models.py", line 763, in raise_for_status
    raise HTTPStatusError(message, request=request, response=self)
httpx.HTTPStatusError: Client error '410 Gone' for url 'https://hooks.example.com/7'
For more information check: https://httpstatuses.com/410
"""
RUBY = """NoMethodError: undefined method `total' for nil:NilClass
/usr/lib/ruby/gems/3.1.0/gems/orders-1.0/lib/orders.rb:5:in `sum'
app/jobs/invoice_job.rb:14:in `perform'
"""
RUBY_34 = "app/jobs/a.rb:3:in 'Integer#/': divided by 0 (ZeroDivisionError)\n\tfrom app/jobs/a.rb:9:in 'A#perform'\n"
NODE = """AxiosError: Request failed with status code 503
    at settle (/app/node_modules/axios/lib/core/settle.js:19:12)
    at async send (/app/src/mail.js:40:9)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)
"""
NODE_CODE = (
    'TypeError [ERR_INVALID_ARG_TYPE]: The "path" argument must be a string\n    at open (file:///app/read.mjs:4:2)'
)
JAVA = """org.springframework.amqp.ListenerFailed: Listener threw an exception
\tat org.springframework.amqp.Listener.run(Listener.java:10)
\t... 3 more
Caused by: com.acme.mail.Bounced: mailbox full
\tat java.base/java.util.ArrayList.forEach(ArrayList.java:1511)
\tat com.acme.mail.Sender.send(Sender.java:41)
"""
DOTNET = """System.InvalidOperationException: Sequence contains no elements
   at System.Linq.ThrowHelper.ThrowNoElementsException()
   at Acme.Jobs.Report.Run(Int32 id) in /src/Jobs/Report.cs:line 27
"""
PHP = """App\\Exceptions\\Declined: no funds in /var/www/app/Jobs/Charge.php:55
Stack trace:
#0 /var/www/vendor/laravel/framework/src/Queue/Worker.php(195): App\\Jobs\\Charge->handle()
#1 {main}
"""
GO = """panic: runtime error: index out of range [5] with length 3

goroutine 7 [running]:
runtime.goPanicIndex(0x5, 0x3)
\t/usr/local/go/src/runtime/panic.go:114 +0x5c
main.(*Mailer).Send(0xc00011e000, {0x4d2f2a, 0x5})
\t/app/mailer.go:42 +0x1d
"""


@run_in_one_test(
    ("text", "kind", "said", "frame"),
    [
        (PYTHON, "billing.charge.CardDeclined", "card of cus_NffrFeUfNV was declined", "charge.py:88"),
        (CHAINED, "b.BadRow", "row 7", "b.py:2"),
        (
            LIBRARY,
            "httpx.HTTPStatusError",
            "Client error '410 Gone' for url 'https://hooks.example.com/7'",
            "hooks.py:31",
        ),
        (RUBY, "NoMethodError", "undefined method `total' for nil:NilClass", "invoice_job.rb:14"),
        (RUBY_34, "ZeroDivisionError", "divided by 0", "a.rb:3"),
        (NODE, "AxiosError", "Request failed with status code 503", "mail.js:40"),
        (NODE_CODE, "TypeError", 'ERR_INVALID_ARG_TYPE: The "path" argument must be a string', "read.mjs:4"),
        (JAVA, "com.acme.mail.Bounced", "mailbox full", "Sender.java:41"),
        (DOTNET, "System.InvalidOperationException", "Sequence contains no elements", "Report.cs:27"),
        (PHP, "App\\Exceptions\\Declined", "no funds", "Charge.php:55"),
        (GO, "", "panic: runtime error: index out of range [5] with length 3", "mailer.go:42"),
        ("redis.exceptions.TimeoutError: Timeout reading from socket", "redis.exceptions.TimeoutError", None, ""),
        ("OperationalError(2006, 'MySQL server has gone away')", "OperationalError", None, ""),
        ("job stalled more than allowable limit", "", "job stalled more than allowable limit", ""),
        ("", "", "", ""),
    ],
)
def test_class_message_and_frame_are_read(text: str, kind: str, said: str | None, frame: str) -> None:
    trace = parse_traceback(text)
    assert trace.kind == kind
    assert said is None or trace.message == said
    assert (trace.frame.short if trace.frame else "") == frame


def test_the_line_that_reports_what_happened_is_found_wherever_a_language_puts_it() -> None:
    assert summarize_error(RUBY) == "NoMethodError: undefined method `total' for nil:NilClass"  # the first
    python = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 1'
    assert summarize_error(python) == "KeyError: 1"  # the last
    assert summarize_error("timed out") == "timed out"
    assert summarize_error("Net::ReadTimeout: Net::ReadTimeout with #<TCPSocket:(closed)>").startswith(
        "Net::ReadTimeout with"
    )


@run_in_one_test(
    ("statement", "names_its_cause"),
    [
        ('raise Declined(f"card of {customer} was declined")', True),
        ("raise Declined('no funds on %s' % card)", True),
        ("raise Declined(answer)", False),
        ('raise ConsumerError(f"{self.filename}: {message}") from error', False),
        ("answer.check()", False),
    ],
)
def test_a_statement_names_the_cause_where_the_words_are_its_own(statement: str, names_its_cause: bool) -> None:
    text = f'Traceback (most recent call last):\n  File "/app/a.py", line 1, in f\n    {statement}\na.Declined: x'
    assert parse_traceback(text).statement == (statement if names_its_cause else "")


def test_only_the_innermost_frames_of_an_error_without_its_middle_count() -> None:
    outer = '  File "/app/worker.py", line 61, in run\n    task()\n'
    lines = [outer, "\n  ... b/charge.py line 88\n", '  File "/usr/lib/python3.12/x.py", line 2, in g\n', "A.Error: no"]
    trace = parse_traceback("Traceback (most recent call last):\n" + "".join(lines).replace("\n\n", "\n"))
    assert (trace.kind, trace.message, trace.frame and trace.frame.short) == ("A.Error", "no", "x.py:2")
    cut = parse_traceback(
        f"Traceback (most recent call last):\n{outer.rstrip()}\n  ... e of a long message\nA.Error: no"
    )
    assert (cut.kind, cut.message, cut.frame) == ("A.Error", "no", None)
    node = parse_traceback("Error: no\n    at net (node:net:1:1)\n  ... :4)\n    at main (/app/main.js:9:2)")
    assert (node.message, node.frame and node.frame.short) == ("no", "node:net:1")


def test_both_ends_of_a_very_long_error_are_read() -> None:
    text = f"Traceback (most recent call last):\n{'x' * 30_000_000}\n{PYTHON}"
    assert len(truncate_error_middle(text)) == 2 * HALF_CHARS + len(CUT)
    trace = parse_traceback(text)
    assert (trace.kind, trace.frame and trace.frame.short) == ("billing.charge.CardDeclined", "charge.py:88")

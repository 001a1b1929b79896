"""What two messages have in common: data is folded, words and names in a program are kept."""

from __future__ import annotations

from families import run_in_one_test

from rqtui.text.folding import MAX_CHARS, fold_message


@run_in_one_test(
    ("message", "folded"),
    [
        ("No such customer: cus_NffrFeUfNV", "No such customer: cus_#"),
        ("No such customer: cus_SjOgubiwrb, cus_aBcdefghij, cus_AbcdEfghiJ", "No such customer: cus_#, cus_#, cus_#"),
        ("charge ch_hsUlYXAb of customer cus_FtgmywArto", "charge ch_# of customer cus_#"),
        ("request req_a1f2 failed", "request req_# failed"),
        ("commit 1a2b3c4 on deadbe7", "commit # on #"),
        ("worker7 gave up, order-77 too", "worker# gave up, order-# too"),
        ("to ann@example.org via db-2.prod.internal:5432", "to # via #"),
        ("connect ECONNREFUSED 127.0.0.1:6379", "connect ECONNREFUSED #"),
        ("no route to fe80::1ff:fe23:4567:890a", "no route to #"),
        ("GET https://a.example/x?y=1 at 2024-01-02T03:04:05.678Z", "GET # at #"),
        ("on Tue, 02 Jan 2024 it broke", "on # it broke"),
        ("ENOENT: no such file or directory, open '/tmp/a/b.csv'", "ENOENT: no such file or directory, open #"),
        ("cannot read uploads/2024/report.pdf", "cannot read #"),
        ("'a' and 'b' differ from 'c'", "# and # differ from #"),
        ("'cannot read'", "cannot read"),
        ("'bob'", "#"),
        ("rows 1, 2, 3 are bad", "rows # are bad"),
        ("(2006, 'MySQL server has gone away')", "(#, MySQL server has gone away)"),
        ("signal strength 77 and exit 3", "signal strength # and exit #"),
        ("wrote to S3 in utf-8", "wrote to S3 in utf-8"),
        ("some_CamelCaseName is no id", "some_CamelCaseName is no id"),
        ("get_UserName and app_ServiceWorker are names", "get_UserName and app_ServiceWorker are names"),
        ("not_found, customer_missing and card_declined", "not_found, customer_missing and card_declined"),
        ("err_CardDeclined, err_HttpsTimeout, err_SmtpRefused", "err_CardDeclined, err_HttpsTimeout, err_SmtpRefused"),
        ("err_StrengthLow, db_SchlangeVoll, api_GrpcTimeout", "err_StrengthLow, db_SchlangeVoll, api_GrpcTimeout"),
    ],
)
def test_parts_that_differ_from_job_to_job_are_folded(message: str, folded: str) -> None:
    assert fold_message(message) == folded
    assert fold_message(folded) == folded


@run_in_one_test(
    ("one", "other"),
    [
        ("Request failed with status code 404", "Request failed with status code 503"),
        ("Client error '410 Gone' for url 'https://a/1'", "Client error '404 Not Found' for url 'https://a/1'"),
        ("undefined method `name' for nil", "undefined method `total' for nil"),
        ("Column 'queue' cannot be null", "Column 'uuid' cannot be null"),
        ('{"code": "card_declined", "id": "ch_1"}', '{"code": "expired_card", "id": "ch_1"}'),
        ("(2006, 'MySQL server has gone away')", "(1213, 'Deadlock found when trying to get lock')"),
        ('Failed(Cause("refused"))', 'Failed(Other("refused"))'),
        ("exit code 1: no such host", "exit code 137: no such host"),
        ("non-zero exit status 1.", "non-zero exit status 2."),
        ("the process ended (signal 9)", "the process ended (signal 11)"),
        ("[Errno 111] refused", "[Errno 28] refused"),
        ("Object of type 'Context' is not known", "Object of type 'Date' is not known"),
    ],
)
def test_parts_that_distinguish_causes_stay(one: str, other: str) -> None:
    assert fold_message(one) != fold_message(other)


def test_a_long_message_is_cut() -> None:
    assert len(fold_message("word " * 10_000)) <= MAX_CHARS

-- Quiet processes: ask each to take no more jobs.
--
-- A process sends a heartbeat every 10 s. At each one it reads one signal, and it ignores signals that are older than a
-- minute.
--
-- writes   signals
-- derived  <prefix><identity>
--          <prefix><identity>-signals
-- KEYS     processes (signals)  set  identities of processes: host:pid:nonce
-- ARGV     prefix?  str  the prefix of all keys: the namespace and a colon
--          each     (worker str)
-- returns each  asked     asked to go quiet: it reads this at its next heartbeat
--               embedded  it runs inside another program, and only that program can end it
--               gone      no such process
local processes, prefix = KEYS[1], ARGV[1]
local signal = 'TSTP'
-- include: signal

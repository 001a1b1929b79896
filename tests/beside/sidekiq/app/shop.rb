# The application whose jobs stock Sidekiq runs, 6 as well as 8: each job notes in the list `beside:ran` who ran it.
# Stock processes load it by `sidekiq -r`, the driver by `require`. What differs from a process of every day is only how
# often it looks: it beats twice a second and polls every half, to spare minutes.
require "json"
require "sidekiq"
begin
  require "sidekiq-cron"
rescue LoadError
  nil # not installed
end
begin
  require "active_job"
  require "active_job/queue_adapters/sidekiq_adapter"
  ActiveJob::Base.queue_adapter = :sidekiq
  ActiveJob::Base.logger = nil
rescue LoadError
  nil # not installed
end

RAN, FIXED = "beside:ran", "beside:fixed"

def note(jid)
  Sidekiq.redis { |redis| redis.rpush(RAN, JSON.generate([jid, ENV["DYNO"], Process.pid])) }
end

# Does its work, a tenth of a second.
class HardJob
  include Sidekiq::Job

  def perform(*_args)
    note(jid)
    sleep 0.1
  end
end

# Fails as long as `beside:fixed` is not there; then it waits in `retry`.
class FailJob
  include Sidekiq::Job

  def perform(order)
    note(jid)
    raise ArgumentError, "no such order: #{order}" unless Sidekiq.redis { |redis| redis.get(FIXED) }
  end
end

# The same, and it is dead at once.
class FatalJob < FailJob
  sidekiq_options retry: 0, backtrace: 20
end

# Fails the first time.
class FlakyJob
  include Sidekiq::Job

  def perform(order, *_more)
    note(jid)
    raise IOError, "order #{order}: connection reset by peer" if Sidekiq.redis { |redis| redis.incr("beside:times:#{jid}") } == 1
  end
end

# Runs until the key is there, a minute at most.
class SlowJob
  include Sidekiq::Job

  def perform(key)
    note(jid)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
    until Sidekiq.redis { |redis| redis.get(key) } || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      sleep 0.02
    end
  end
end

if defined?(Sidekiq::IterableJob)
  # Goes through numbers, one per 20 ms, until it is cancelled.
  class StepsJob
    include Sidekiq::IterableJob

    def build_enumerator(last, cursor:)
      array_enumerator((1..last).to_a, cursor: cursor)
    end

    def each_iteration(number, _last)
      note(jid) if number == 1
      sleep 0.02
    end
  end
end

if defined?(ActiveJob)
  # Greets, by ActiveJob. The greeting of nobody fails the first time.
  class GreetJob < ActiveJob::Base
    queue_as :default
    retry_on IOError, wait: 0

    def perform(name, loud: false)
      note(provider_job_id)
      raise IOError, "nobody answers" if name == "nobody" && executions == 1
    end
  end
end

Sidekiq.configure_server do |config|
  settings = config.respond_to?(:options) ? config.options : config
  settings[:poll_interval_average] = 0.5
  settings[:cron_poll_interval] = 1
  Sidekiq::Launcher.send(:remove_const, :BEAT_PAUSE)
  Sidekiq::Launcher.const_set(:BEAT_PAUSE, 0.5)
end

# Stock Sidekiq, as its own API has it: a JSON list [name, arguments] per line in, a JSON document per line out.
# REDIS_URL names the Redis.
require_relative "shop"
require "sidekiq/api"

# Each public method is a command.
class Driver
  SETS = {"schedule" => Sidekiq::ScheduledSet, "retry" => Sidekiq::RetrySet, "dead" => Sidekiq::DeadSet}.freeze

  # Sidekiq's.
  def version
    Sidekiq::VERSION
  end

  # Whether ActiveJob and sidekiq-cron are there, and jobs that go on in steps.
  def has
    {"active_job" => !defined?(ActiveJob).nil?, "cron" => !defined?(Sidekiq::Cron).nil?, "steps" => !defined?(StepsJob).nil?}
  end

  # `Sidekiq::Client.push` of items; those with `at` later.
  def push(items:)
    items.each { |item| Sidekiq::Client.push(item.merge("class" => Object.const_get(item["class"]))) }
    items.size
  end

  # `perform_later` of an ActiveJob; gives the jid.
  def greet(name:, loud: false)
    GreetJob.perform_later(name, loud: loud).provider_job_id
  end

  # Places and counts of `Sidekiq::Stats`.
  def stats
    found = Sidekiq::Stats.new
    {
      "processed" => found.processed, "failed" => found.failed, "enqueued" => found.enqueued, "queues" => found.queues,
      "schedule" => found.scheduled_size, "retry" => found.retry_size, "dead" => found.dead_size,
      "processes" => found.processes_size
    }
  end

  # The jobs of a queue, or of one of the sorted sets, in the order of the API; those that cannot be read are left out.
  def jobs(place:)
    SETS.key?(place) ? SETS[place].new.map { |job| told(job, job.score) } : Sidekiq::Queue.new(place).map { |job| told(job) }
  end

  # Seconds since the oldest of a queue was enqueued.
  def latency(queue:)
    Sidekiq::Queue.new(queue).latency
  end

  # Where a job stands: a queue, `schedule`, `retry`, `dead`, `work`.
  def where(jids:)
    found = jids.to_h { |jid| [jid, []] }
    SETS.each { |place, set| set.new.each { |job| found[job.jid]&.push(place) } }
    Sidekiq::Queue.all.each { |queue| queue.each { |job| found[job.jid]&.push(queue.name) } }
    work.each { |each| found[each["jid"]]&.push("work") }
    found
  end

  # What runs, as the API knows it.
  def work
    Sidekiq::WorkSet.new.map do |process, tid, work|
      payload = work.respond_to?(:job) ? work.job.item : work["payload"]
      {"process" => process, "tid" => tid, "jid" => payload["jid"], "queue" => work.respond_to?(:queue) ? work.queue : work["queue"]}
    end
  end

  # The processes.
  def processes
    Sidekiq::ProcessSet.new.map do |each|
      {
        "identity" => each["identity"], "queues" => each["queues"] || each.queues, "concurrency" => each["concurrency"],
        "busy" => each["busy"], "beat" => each["beat"], "quiet" => each.stopping?
      }
    end
  end

  # Tells a process `quiet` or `stop`.
  def tell(identity:, word:)
    Sidekiq::ProcessSet.new.find { |each| each["identity"] == identity }.public_send("#{word}!")
  end

  # The stock verbs of a sorted set: retry, kill, delete, add_to_queue.
  def act(place:, jid:, verb:)
    SETS[place].new.find_job(jid).public_send(verb)
  end

  # An entry of sidekiq-cron.
  def cron(name:, cron:, klass:, args: [])
    Sidekiq::Cron::Job.create(name: name, cron: cron, class: klass, args: args)
  end

  # The entries of sidekiq-cron.
  def crons
    Sidekiq::Cron::Job.all.map { |each| {"name" => each.name, "cron" => each.cron, "klass" => each.klass, "status" => each.status} }
  end

  private

  def told(job, score = nil)
    {
      "jid" => job.jid, "queue" => job.queue, "class" => job.display_class, "args" => job.display_args, "score" => score,
      "error" => job["error_message"], "backtrace" => job.error_backtrace, "item" => job.item
    }
  end
end

driver = Driver.new
Sidekiq.respond_to?(:default_configuration) ? Sidekiq.default_configuration.logger.level = Logger::ERROR : Sidekiq.logger.level = Logger::ERROR
$stdout.sync = true
$stdin.each_line do |line|
  name, options = JSON.parse(line)
  begin
    answer = {"value" => driver.public_send(name, **options.transform_keys(&:to_sym))}
  rescue Exception => error
    answer = {"error" => error.full_message(highlight: false)}
  end
  puts JSON.generate(answer)
end

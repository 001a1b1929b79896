# What Sidekiq's API asks: `sidekiq_stats.rb URL ROUNDS` prints the milliseconds of each round as JSON.

require 'json'
require 'sidekiq'
require 'sidekiq/api'

url, rounds = ARGV[0], ARGV[1].to_i
Sidekiq.configure_client { |config| config.redis = { url: url } }

LOOKS = {
  # The dashboard: the numbers of all queues together, and the length of each in one pipeline.
  'Sidekiq::Stats and its queues' => lambda {
    stats = Sidekiq::Stats.new
    [stats.processed, stats.failed, stats.scheduled_size, stats.retry_size, stats.dead_size, stats.workers_size]
    stats.queues.values.sum
  },
  # The page of queues: the length and the latency of each.
  'size and latency of each Sidekiq::Queue' => lambda {
    Sidekiq::Queue.all.sum do |queue|
      queue.latency
      queue.size
    end
  }
}.freeze

found = LOOKS.to_h do |name, look|
  counted = look.call
  took = Array.new(rounds) do
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    look.call
    (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) * 1000
  end
  [name, { ms: took, counted: counted }]
end
puts JSON.generate(found)

# The worker (`sidekiq -r ./sidekiq.rb`), and with arguments what measure.py says.
require 'sidekiq'

options = { path: ENV.fetch('SOCKET') }
Sidekiq.configure_server { |config| config.redis = options }
Sidekiq.configure_client { |config| config.redis = options }

class Job
  include Sidekiq::Worker
  def perform
    Sidekiq.redis { |redis| redis.lpush('ended', 1) }
  end
end

if $PROGRAM_NAME == __FILE__
  mode, count = ARGV[0], ARGV[1].to_i
  if mode == 'push'
    count.times { Job.perform_async }
  else
    times = Array.new(count) do
      sleep 0.05 # The worker is idle again.
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      Job.perform_async
      Sidekiq.redis { |redis| redis.blpop('ended', timeout: 20) } or abort 'a job did not end'
      Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
    end
    puts times.sort[count / 2] * 1000
  end
end

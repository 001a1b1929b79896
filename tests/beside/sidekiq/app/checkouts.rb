# Lets checkouts of Sidekiq 8 run beside older programs of the system: it asks for Ruby 3.2 and newer gems than it needs.
# `ruby -r./checkouts.rb -I sidekiq/lib …`.
require "set"
if Gem::Version.new(RUBY_VERSION) < Gem::Version.new("3.2")
  Object.send(:remove_const, :RUBY_VERSION)
  RUBY_VERSION = "3.2.0"
  Data = Class.new { def self.define(*names, &block) = Struct.new(*names, keyword_init: true, &block) }
end

module Kernel
  def gem(*) = true
end

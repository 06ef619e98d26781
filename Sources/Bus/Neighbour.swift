/// A worker on the same machine.
package struct Neighbour: Sendable, Hashable {
    package let worker: String
    /// Its instance, and the number and start of its process: Lua/neighbours.lua.
    package let process: String

    package init(worker: String, process: String) { (self.worker, self.process) = (worker, process) }
}

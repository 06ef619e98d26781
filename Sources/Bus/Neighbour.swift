/// A worker as those on the same machine know it.
package struct Neighbour: Sendable, Hashable {
    package let worker: String
    /// Its instance, and how its process can be told: Lua/neighbours.lua.
    package let process: String

    package init(worker: String, process: String) { (self.worker, self.process) = (worker, process) }
}

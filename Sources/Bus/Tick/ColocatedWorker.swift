/// A worker on the same machine.
package struct ColocatedWorker: Sendable, Hashable {
    package let worker: String
    /// Its instance, and the number and start of its process: Lua/tick/colocated.lua.
    package let process: String

    package init(worker: String, process: String) { (self.worker, self.process) = (worker, process) }
}

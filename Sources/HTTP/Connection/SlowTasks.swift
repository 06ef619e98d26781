/// The slow transfers that libcurl has just read from. Their sockets collect bytes again once libcurl is done with
/// them, and not sooner, because libcurl asks the socket whether there is more.
final class SlowTasks {
    private var read: [TransferTask] = []

    func join(_ task: TransferTask) { if read.last !== task { read.append(task) } }

    func gather() {
        for task in read { task.gather() }
        read.removeAll(keepingCapacity: true)
    }
}

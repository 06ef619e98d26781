import HaulActivities
import HaulContract
import HaulHTTP
import HaulStorage

extension GetRecord {
    /// The next attempt of the download.
    ///
    /// - Parameter isNew: Nothing hidden is left of an earlier run, so that no directory has to be searched for it.
    func assignment(of item: GetItem, isNew: Bool) -> Assignment {
        var assignment = Assignment(
            job: item.job, token: run, key: storeKey, clock: SharedClock(serverTime: UnixTime.milliseconds))
        (assignment.resume, assignment.isNew) = (resume, isNew)
        (assignment.isSettled, assignment.hasNoLeftovers) = (isNew, isNew)
        assignment.completed = unfinished ?? completed
        assignment.refusesMetalinks = item.followsMetalink
        return assignment
    }
}

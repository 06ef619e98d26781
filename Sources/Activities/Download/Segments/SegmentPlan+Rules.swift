// The numbers of the rules: bytes, and seconds.
extension SegmentPlan {
    /// Less is not worth a request.
    static let smallestPart: Int64 = 512 << 10
    /// Nor is less than this where connections are slow because the way is far.
    static let leastPart: Int64 = 64 << 10
    /// Nor is what its owner would bring within so many seconds.
    static let shortest = 0.25
    /// Others are asked to help only where that saves several times what a request takes to be answered: so many seconds
    /// while that is not known, and at least and at most.
    static let worthwhile = (unknown: 2.0, least: 0.2, most: 2.0)
    /// From this round trip on it is slow start that decides how long a download takes, and not what connections bring
    /// once they run: others are asked to help before anything can be told of speeds.
    static let far = 0.005
    /// From this round trip on slow start takes so long that nobody waits to see what the first few bring.
    static let distant = 0.05
    /// Questions of newcomers that wait for their answers at once: a host that bears few refuses no more than these, and
    /// one that bears more no more than it bears.
    static let mostUnanswered = 3
    /// The same on a distant way: there each answer takes so long that to wait for it costs more than a refusal.
    static let mostUnansweredFromAfar = 7
    /// So many connections join at once where the way is far; more of them only for each so many bytes that are left.
    static let few = 4
    static let worthAConnection: Int64 = 4 << 20
    /// Round trips after which a slow start is over, and after which it shows whether a queue builds up.
    static let slowStart = 8.0
    static let queueShows = 5.0
    /// Newcomers on a distant way are asked for one after the other within a round trip, so many: what several send at the
    /// same moment looks like a queue to each of them, which ends its slow start too soon.
    static let asksPerRoundTrip = 8.0
    /// The same where the way loses packets, which keeps each connection slow.
    static let worthALossyConnection: Int64 = 1 << 20
    /// An extra connection that brings nothing for so long is given up while others bring something.
    static let patience = 10.0
    /// More connections join as long as they make it so much faster within `trial`.
    static let gain = 1.15
    static let trial = 2.0
    /// Where the way is far the speed is that of so many seconds at least.
    static let memory = 0.25
    /// A speed measured over less is none.
    static let shortestSample = 0.02
    /// A part that is so many times what would come twice is worth that.
    static let worthTwice: Int64 = 8
    /// What a response has brought within so many times of an answer says little of its speed to come.
    static let youth = 6.0
}

/// A date of the Gregorian calendar, and days since 1970-01-01.
package struct CivilDate: Sendable, Equatable {
    package let year: Int
    /// 1 to 12.
    package let month: Int
    /// 1 to 31.
    package let day: Int

    package init(year: Int, month: Int, day: Int) { (self.year, self.month, self.day) = (year, month, day) }

    /// The date of a day. Years begin in March here, so that a leap day is the last one of its year.
    package init(days: Int) {
        let shifted = days + 719_468
        let era = shifted.floored(by: 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// Days since 1970-01-01.
    package var days: Int {
        let year = month <= 2 ? year - 1 : year
        let era = year.floored(by: 400)
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    /// 0 is a Sunday.
    package static func weekday(ofDay days: Int) -> Int { days + 4 - (days + 4).floored(by: 7) * 7 }

    /// `2026-11-26T03:00:00Z`, with milliseconds only if there are any.
    package static func text(ofMilliseconds time: Int64) -> String {
        let seconds = Int(time).floored(by: 1000)
        let days = seconds.floored(by: 86_400)
        let (date, rest, fraction) = (CivilDate(days: days), seconds - days * 86_400, Int(time) - seconds * 1000)
        func padded(_ number: Int, _ width: Int) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
        }
        return "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))T\(padded(rest / 3600, 2)):"
            + "\(padded(rest / 60 % 60, 2)):\(padded(rest % 60, 2))\(fraction > 0 ? "." + padded(fraction, 3) : "")Z"
    }
}

extension Int {
    /// The quotient, rounded down also for negative numbers.
    package func floored(by divisor: Int) -> Int {
        let (quotient, rest) = quotientAndRemainder(dividingBy: divisor)
        return rest != 0 && (rest < 0) != (divisor < 0) ? quotient - 1 : quotient
    }
}

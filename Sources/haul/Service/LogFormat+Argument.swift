import ArgumentParser
import HaulLogs

extension LogFormat: ExpressibleByArgument {}

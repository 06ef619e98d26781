public import ArgumentParser
public import HaulContract

// `Job.IfExists` is public, so both modules that its conformance names have to be imported publicly.
extension Job.IfExists: ExpressibleByArgument {}

import ArgumentParser
import HaulFileStore

extension Durability: ExpressibleByArgument {}

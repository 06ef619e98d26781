import HaulFileStore
import Logging

/// What an operator should know of the root's file system.
enum RootCheck {
    static func tell(of store: FileStore, _ log: Logger) {
        let root: Logger.Metadata = ["root": "\(store.root)"]
        switch store.naming {
        case .link, nil: break
        case .exclusiveRename:
            log.info("the root has no hard links: finished files get their names by exclusive renames", metadata: root)
        case .lockedRename:
            log.warning(
                """
                the root has neither hard links nor exclusive renames: workers take turns with a lock, and another program's \
                file that appears in the same moment as a finished one of its name may be replaced
                """, metadata: root)
        }
    }
}

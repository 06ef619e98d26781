// Contract defines jobs, their states and their events. The re-export lets a program import HaulClient alone.
@_exported public import HaulContract

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_store::Mode;

use crate::store::random::Random;

/// A request, drawn before it is made.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) arrival: u64,
    pub(super) instance: usize,
    pub(super) charges: SmallVec<[(usize, u32, u64, Mode); 3]>,
    /// The caller goes away after this.
    pub(super) gives_up: Option<Duration>,
    pub(super) afterwards: Afterwards,
}

/// What becomes of a charge.
#[derive(Clone, Copy, Debug)]
pub(super) enum Afterwards {
    Keep,
    GiveBack(Duration),
    Settle(Duration, u64),
    Renew(Duration, Duration),
}

impl Plan {
    /// One of those that so many instances may get, about so many keys.
    pub(super) fn drawn(arrival: u64, instances: usize, keys: u32, random: &mut Random) -> Plan {
        let count = [1, 1, 1, 2, 2, 3][random.below(6) as usize];
        let mut charges: SmallVec<[(usize, u32, u64, Mode); 3]> = SmallVec::new();
        for _ in 0..count {
            let mode = match random.below(13) {
                0 => Mode::Shadow,
                1 => Mode::Guard,
                2 => Mode::Watch,
                3 => Mode::ShadowJoined,
                _ => Mode::Enforce,
            };
            let cost = [0, 1, 1, 1, 1, 2, 2, 3, 30][random.below(9) as usize];
            charges.push((random.below(4) as usize, random.below(keys), cost, mode));
        }
        let ms = |milliseconds: u32| Duration::from_millis(u64::from(milliseconds));
        let afterwards = match random.below(6) {
            0 | 1 => Afterwards::GiveBack(ms(random.below(60))),
            2 => Afterwards::Settle(ms(random.below(60)), u64::from(random.below(5))),
            3 => Afterwards::Renew(ms(random.below(150)), ms(random.below(150))),
            _ => Afterwards::Keep,
        };
        Plan {
            arrival,
            instance: random.below(instances as u32) as usize,
            charges,
            gives_up: (random.below(12) == 0).then(|| ms(random.below(12))),
            afterwards,
        }
    }
}

/// What a key is called by who asks.
pub(super) fn key_bytes(key: u32) -> Vec<u8> {
    format!("user-{key}").into_bytes()
}

use std::net::SocketAddr;

use tollgate_redis::{RedisOptions, RedisStoreSettings, RegionSettings};
use tollgate_testbed::{FaultProxy, RedisServer, Reply};

use crate::support::{long_deadline, standalone_options};
use crate::{EPOCH, REGIONS};

/// The servers of three regions and the global one, which each region reaches through a proxy of its own.
pub(crate) struct Servers {
    pub(crate) regional: [RedisServer; 3],
    pub(crate) global: RedisServer,
    pub(crate) proxies: [FaultProxy; 3],
}

impl Servers {
    pub(crate) fn start() -> Servers {
        let server = || RedisServer::start(&[]).unwrap();
        let global = server();
        let proxies = [(); 3].map(|()| FaultProxy::start(global.address()).unwrap());
        Servers { regional: [(); 3].map(|()| server()), global, proxies }
    }

    /// Returns the address of a region's server, and that of its proxy to the global server.
    pub(crate) fn of(&self, region: usize) -> (SocketAddr, SocketAddr) {
        (self.regional[region].address(), self.proxies[region].address())
    }

    /// Returns the time of the global server in milliseconds.
    pub(crate) fn global_ms(&self) -> u64 {
        let Reply::Array(time) = self.global.command(&["TIME"]).unwrap() else { panic!("TIME") };
        let number = |at: usize| time[at].text().unwrap().parse::<u64>().unwrap();
        number(0) * 1_000 + number(1) / 1_000
    }

    /// Returns the instance that has reported for a region in the present epoch, and when that epoch began.
    pub(crate) fn reporter(&self, region: usize) -> Option<(String, u64)> {
        let epoch_ms = u64::try_from(EPOCH.as_millis()).unwrap();
        let start_ms = self.global_ms() / epoch_ms * epoch_ms;
        let field = format!("report:{start_ms}:{}", REGIONS[region].0);
        let reply = self.global.command(&["HGET", "tollgate:\\.regions", &field]).unwrap();
        // The share, the reserve, the number of chunks, and the instance.
        Some((reply.text()?.lines().next()?.split(' ').nth(3)?.to_owned(), start_ms))
    }
}

pub(crate) fn weights(regions: &[(&str, u32)]) -> Vec<(String, u32)> {
    regions.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect()
}

/// Returns the settings of an instance. Instances need different seeds.
pub(crate) fn settings(region: &str, regions: &[(&str, u32)], global: RedisOptions, seed: u64) -> RedisStoreSettings {
    let prefix = "tollgate:".to_owned();
    let regions = RegionSettings { region: region.to_owned(), weights: weights(regions), epoch: EPOCH, prefix, global };
    RedisStoreSettings { regions: Some(regions), seed, ..long_deadline() }
}

/// Returns the settings of an instance of one of the three regions.
pub(crate) fn usual_settings(region: usize, global: SocketAddr, seed: u64) -> RedisStoreSettings {
    settings(REGIONS[region].0, &REGIONS, standalone_options(global), seed)
}

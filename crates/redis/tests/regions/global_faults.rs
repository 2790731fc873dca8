//! The global server loses its data, has values that tollgate did not write, or is full.

use tollgate_testbed::Reply;

use crate::instance::Instance;
use crate::load::Load;
use crate::servers::Servers;
use crate::support::until;
use crate::{AP, EU, US};

const KEYS: u32 = 4;
const PER_SECOND: u64 = 50;
const REGIONS_KEY: &str = "tollgate:\\.regions";

struct Scene {
    servers: Servers,
    instances: Vec<Instance>,
    loads: Vec<Load>,
}

impl Scene {
    async fn start() -> Scene {
        let servers = Servers::start();
        let mut instances = Vec::new();
        for region in [EU, US, AP] {
            instances.push(Instance::start(&servers, region, region as u64).await);
        }
        let loads: Vec<Load> = instances.iter().map(|instance| Load::start(instance.clone(), KEYS, false)).collect();
        loads.iter().for_each(|load| load.set(PER_SECOND));
        Scene { servers, instances, loads }
    }

    fn command(&self, command: &[&str]) {
        let reply = self.servers.global.command(command).unwrap();
        assert!(!matches!(reply, Reply::Error(_)), "{command:?}: {reply:?}");
    }

    /// All regions report, and have been read.
    async fn exchange(&self) {
        for instance in &self.instances {
            let before = instance.status();
            let advances = || instance.status().reports > before.reports && instance.status().reads > before.reads;
            until("the region reports, and reads the reports", advances).await;
        }
    }

    /// Calls fail, and regions still admit requests at the rates of their shares.
    async fn fail_and_admit(&self) {
        for (instance, load) in self.instances.iter().zip(&self.loads) {
            let failures = instance.status().global_failures;
            until("calls to the global server fail", || instance.status().global_failures >= failures + 2).await;
            let admitted = load.admitted();
            until("requests are admitted", || load.admitted() >= admitted + 2 * u64::from(KEYS)).await;
        }
    }

    async fn end(self) {
        let mut log = crate::admitted::Admitted::default();
        for load in self.loads {
            log.merge(load.end().await);
        }
        println!("{}", log.assert_within_limits());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regions_keep_their_shares_while_the_global_server_is_unusable_and_lend_again_afterwards() {
    let scene = Scene::start().await;
    scene.exchange().await;
    // A value that tollgate did not write.
    scene.command(&["DEL", REGIONS_KEY]);
    scene.command(&["SET", REGIONS_KEY, "other"]);
    scene.fail_and_admit().await;
    scene.command(&["DEL", REGIONS_KEY]);
    scene.exchange().await;
    // A full server. The default is to evict nothing.
    scene.command(&["CONFIG", "SET", "maxmemory", "1"]);
    scene.fail_and_admit().await;
    scene.command(&["CONFIG", "SET", "maxmemory", "0"]);
    scene.exchange().await;
    // All data is lost.
    scene.command(&["FLUSHALL"]);
    scene.exchange().await;
    scene.end().await;
}

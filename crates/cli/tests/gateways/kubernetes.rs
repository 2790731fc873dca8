//! `deploy/kubernetes`.

mod envoy_config;
mod manifests;
mod pod;
mod references;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_testbed::{RedisServer, RedisSetup};

use crate::client::Client;
use crate::envoy::ENVOY;
use crate::gateway::Gateway;
use crate::upstream;
use envoy_config::for_test;
use manifests::{Manifests, deployed};
use pod::{Pod, SECRET, list, text};

const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests in flight are cut off after this time.
const DRAIN_SECONDS: u64 = 10;

#[test]
#[ignore = "needs kubernetes"]
fn manifests_refer_to_each_other_and_misspelt_members_are_found() {
    let readme = std::fs::read_to_string(deployed("README.md")).unwrap();
    let monitors = Manifests::rendered("monitoring");
    for kustomization in ["base", "overlays/redis"] {
        references::check(&Manifests::rendered(kustomization), &monitors, &readme);
    }
    for (text, misspelt) in [("readOnlyRootFilesystem", "readonlyRootFilesystem"), ("replicas: 1", "replicas: one")] {
        let deployment = std::fs::read_to_string(deployed("base/deployment.yaml")).unwrap();
        Manifests::parse(&deployment.replace(text, misspelt)).unwrap_err();
    }
    for (text, misspelt) in [("failOpen", "failopen"), ("port: 8081", "port: 70000")] {
        let contour = std::fs::read_to_string(deployed("gateways/contour.yaml")).unwrap();
        Manifests::parse(&contour.replace(text, misspelt)).unwrap_err();
    }
}

#[test]
#[ignore = "needs kubernetes"]
fn pods_are_restricted_and_have_time_to_drain() {
    for kustomization in ["base", "overlays/redis"] {
        let manifests = Manifests::rendered(kustomization);
        let (pod, container) = (manifests.pod(), manifests.container());
        let security = &container["securityContext"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["capabilities"], serde_json::json!({ "drop": ["ALL"] }));
        assert_eq!(pod["automountServiceAccountToken"], false);
        let pre_stop = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap();
        assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > pre_stop + DRAIN_SECONDS);
    }
}

#[test]
#[ignore = "needs kubernetes"]
fn only_instances_with_a_shared_store_are_scaled() {
    let (base, redis) = (Manifests::rendered("base"), Manifests::rendered("overlays/redis"));
    let replicas = |manifests: &Manifests| manifests.named("Deployment", "tollgate")["spec"]["replicas"].clone();
    assert_eq!((replicas(&base), base.of_kind("HorizontalPodAutoscaler").len()), (1.into(), 0));
    assert!(!policy(&base).contains("store:"));
    assert_eq!((replicas(&redis), redis.of_kind("HorizontalPodAutoscaler").len()), (Value::Null, 1));
    assert!(policy(&redis).contains("store:"));
}

#[test]
#[ignore = "needs kubernetes"]
fn container_answers_probes_reloads_the_config_map_and_drains() {
    let manifests = Manifests::rendered("base");
    let mut pod = Pod::start(&manifests);
    assert_eq!([pod.probe("livenessProbe"), pod.probe("readinessProbe")], [200, 200]);
    let path =
        Manifests::rendered("monitoring").named("ServiceMonitor", "tollgate")["spec"]["endpoints"][0]["path"].clone();
    assert_eq!(pod.get("admin", text(&path), &[]).status, 401);
    let authorized = [("authorization", format!("Bearer {SECRET}"))];
    let authorized = authorized.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert!(pod.get("admin", text(&path), &authorized).body.contains("tollgate_policy_info"));
    pod.update("/etc/tollgate/policy", "policy.yaml", "version: 1\nrules: [{ name: swapped, limit: 3/min }]\n");
    let begun = Instant::now();
    while !pod.get("http", "/v1/limits", &[]).body.contains("swapped") {
        assert!(begun.elapsed() < RELOAD_TIMEOUT, "the policy is not reloaded");
        std::thread::sleep(Duration::from_millis(100));
    }
    pod.process.signal("TERM").unwrap();
    let grace = manifests.pod()["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(pod.process.wait(Duration::from_secs(grace)).unwrap().success());
}

#[test]
#[ignore = "needs kubernetes"]
fn pods_with_redis_count_together() {
    let redis = RedisServer::start_with(RedisSetup { password: Some(SECRET), ..RedisSetup::default() }).unwrap();
    let manifests = Manifests::rendered("overlays/redis");
    let manifests = manifests.with("redis.redis.svc.cluster.local:6379", &redis.address().to_string());
    // A machine under load may take longer than the default.
    let manifests = manifests.with("on_failure: local", "deadline: 5s\\n    on_failure: closed");
    let pods = [Pod::start(&manifests), Pod::start(&manifests)];
    let login = |pod: &Pod| {
        let body = r#"{"ip":"203.0.113.9","method":"POST","path":"/login"}"#;
        let client = Client { host: 1, gateway: pod.port("http") };
        let verdict: Value = serde_json::from_str(&client.post("/v1/check", &[], body).body).unwrap();
        assert_ne!(verdict["source"], "fallback", "{verdict}");
        verdict["allowed"].as_bool().unwrap()
    };
    let allowed = (0..10).filter(|call| login(&pods[call % 2])).count();
    assert!((5..=6).contains(&allowed), "{allowed}: one more may refill meanwhile");
    assert_eq!(pods.each_ref().map(|pod| pod.probe("readinessProbe")), [200, 200]);
}

/// The kustomization in the README adds the component.
#[test]
#[ignore = "needs kubernetes"]
fn access_token_is_required_with_the_component() {
    let readme = std::fs::read_to_string(deployed("README.md")).unwrap();
    let (_, written) = readme.split_once("```yaml\n# kustomization.yaml\n").unwrap();
    let manifests = Manifests::of_user(written.split_once("```").unwrap().0);
    references::check(&manifests, &Manifests::rendered("monitoring"), &readme);
    assert!(text(&manifests.container()["image"]).starts_with("registry.internal/tollgate:"));
    // Counted in memory: this test needs no Redis.
    let pod = Pod::start(&manifests.with(&policy(&manifests), &policy(&Manifests::rendered("base"))));
    let status = |fields: &[(&str, &str)]| {
        let client = Client { host: 1, gateway: pod.port("http") };
        client.post("/v1/check", fields, "{}").status
    };
    let token = format!("Bearer {SECRET}");
    assert_eq!([status(&[]), status(&[("authorization", &token)])], [401, 200]);
    assert_eq!([pod.probe("livenessProbe"), pod.probe("readinessProbe")], [200, 200]);
}

/// Starts Envoy with a configuration that a gateway would generate, and a pod behind it.
fn limited_by(file: &str, generate: fn(&Manifests, SocketAddr) -> Value) {
    let base = Manifests::rendered("base");
    let pod = Pod::start(&base);
    let manifests = Manifests::file(file);
    let config = generate(&manifests, pod.port("grpc"));
    let upstream = upstream::start();
    let gateway = Gateway::start_written(&ENVOY, |directory, ports| {
        let config = for_test(config.clone(), ports[0].1, upstream);
        std::fs::write(directory.join("envoy.yaml"), config.to_string()).unwrap();
    });
    let login = |host| gateway.client(host).post("/login?next=%2F", &[("X-Forwarded-For", "203.0.113.77")], "");
    let statuses: Vec<u16> = (0..5).map(|_| login(2).status).collect();
    assert_eq!(statuses, [200; 5]);
    // On a slow machine one more may refill meanwhile.
    let refused = (0..10).map(|_| login(2)).find(|response| response.status != 200).unwrap();
    assert_eq!((refused.status, refused.field("x-ratelimit-limit")), (429, Some("5")), "{refused:?}");
    assert!(refused.field("retry-after").is_some(), "{refused:?}");
    assert_eq!((gateway.client(2).get("/login").status, login(3).status), (200, 200));
    drop(pod);
    assert_eq!(login(4).status, 500, "the manifest refuses requests that were not counted");
    for (name, port) in services_named_in(&manifests) {
        let service = base.named("Service", &name);
        assert!(list(&service["spec"]["ports"]).iter().any(|known| known["port"] == port), "{name} has no port {port}");
    }
}

/// The policy in the ConfigMap, as a JSON string.
fn policy(manifests: &Manifests) -> String {
    manifests.named("ConfigMap", "tollgate-policy")["data"]["policy.yaml"].to_string()
}

/// The Services of the namespace that a manifest refers to, and their ports.
fn services_named_in(manifests: &Manifests) -> Vec<(String, u16)> {
    let all = serde_json::to_string(&manifests.0).unwrap();
    let hosts = all.split('"').filter_map(|text| text.strip_suffix(".tollgate.svc.cluster.local"));
    let mut services: Vec<(String, u16)> =
        hosts.map(|host| (host.rsplit('|').next().unwrap().to_owned(), 8081)).collect();
    for extension in manifests.of_kind("ExtensionService") {
        let service = &extension["spec"]["services"][0];
        services.push((text(&service["name"]).to_owned(), service["port"].as_u64().unwrap().try_into().unwrap()));
    }
    assert!(!services.is_empty());
    services
}

#[test]
#[ignore = "needs kubernetes"]
fn istio_is_limited() {
    limited_by("gateways/istio.yaml", envoy_config::istio);
}

#[test]
#[ignore = "needs kubernetes"]
fn envoy_gateway_is_limited() {
    limited_by("gateways/envoy-gateway.yaml", envoy_config::envoy_gateway);
}

#[test]
#[ignore = "needs kubernetes"]
fn contour_is_limited() {
    limited_by("gateways/contour.yaml", envoy_config::contour);
}

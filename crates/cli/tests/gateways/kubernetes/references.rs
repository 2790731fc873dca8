//! Names by which manifests refer to each other.

use serde_json::Value;

use super::manifests::Manifests;
use super::pod::{list, text};

/// Checks all selectors, ports, volumes and Secrets of a rendered kustomization.
pub(crate) fn check(manifests: &Manifests, monitors: &Manifests, readme: &str) {
    let deployment = &manifests.named("Deployment", "tollgate")["spec"];
    let labels = &deployment["template"]["metadata"]["labels"];
    assert!(selects(&deployment["selector"]["matchLabels"], labels));
    for service in manifests.of_kind("Service") {
        assert!(selects(&service["spec"]["selector"], labels), "{service}");
        for port in list(&service["spec"]["ports"]) {
            assert_eq!(container_port(manifests, &port["targetPort"]), port["port"], "{service}");
        }
    }
    for policy in manifests.of_kind("NetworkPolicy") {
        assert!(selects(&policy["spec"]["podSelector"]["matchLabels"], labels), "{policy}");
        for rule in policy["spec"]["ingress"].as_array().into_iter().flatten() {
            list(&rule["ports"]).iter().for_each(|port| drop(container_port(manifests, &port["port"])));
        }
    }
    for budget in manifests.of_kind("PodDisruptionBudget") {
        assert!(selects(&budget["spec"]["selector"]["matchLabels"], labels), "{budget}");
    }
    for scaler in manifests.of_kind("HorizontalPodAutoscaler") {
        let target = &scaler["spec"]["scaleTargetRef"];
        manifests.named(text(&target["kind"]), text(&target["name"]));
    }
    for probe in ["livenessProbe", "readinessProbe"] {
        container_port(manifests, &manifests.container()[probe]["httpGet"]["port"]);
    }
    for secret in secrets(manifests) {
        assert!(readme.contains(&format!("create secret generic {secret}")), "the README does not create {secret}");
    }
    check_monitor(manifests, monitors);
    for manifest in &manifests.0 {
        let namespace = &manifest["metadata"]["namespace"];
        assert!(manifest["kind"] == "Namespace" || namespace == "tollgate", "{manifest}");
    }
}

/// The monitor finds the port of a Service, and the Secret that the pods mount.
fn check_monitor(manifests: &Manifests, monitors: &Manifests) {
    let monitor = &monitors.named("ServiceMonitor", "tollgate")["spec"];
    let endpoint = &monitor["endpoints"][0];
    let found = manifests.of_kind("Service").into_iter().any(|service| {
        selects(&monitor["selector"]["matchLabels"], &service["metadata"]["labels"])
            && list(&service["spec"]["ports"]).iter().any(|port| port["name"] == endpoint["port"])
    });
    assert!(found, "no Service has the port of {monitor}");
    let credentials = &endpoint["authorization"]["credentials"];
    assert!(secrets(manifests).contains(&text(&credentials["name"]).to_owned()));
    let mounted = format!("/{}", text(&credentials["key"]));
    assert!(list(&manifests.container()["args"]).iter().any(|argument| text(argument).ends_with(&mounted)));
}

/// The Secrets that a pod needs.
fn secrets(manifests: &Manifests) -> Vec<String> {
    let volumes = list(&manifests.pod()["volumes"]).iter().map(|volume| &volume["secret"]["secretName"]);
    let variables = manifests.container()["env"].as_array().into_iter().flatten();
    let variables = variables.map(|variable| &variable["valueFrom"]["secretKeyRef"]["name"]);
    volumes.chain(variables).filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The number of the container port of a name.
fn container_port(manifests: &Manifests, name: &Value) -> Value {
    let ports = list(&manifests.container()["ports"]);
    let port = ports.iter().find(|port| port["name"] == *name).unwrap_or_else(|| panic!("there is no port {name}"));
    port["containerPort"].clone()
}

/// Whether all labels of a selector, which has some, are among the labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    let selector = selector.as_object().unwrap_or_else(|| panic!("{selector} selects everything"));
    !selector.is_empty() && selector.iter().all(|(name, value)| labels[name] == *value)
}

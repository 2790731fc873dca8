//! Configurations of Envoy as Istio, Envoy Gateway and Contour generate them from the manifests of
//! `deploy/kubernetes/gateways`.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::manifests::{Manifests, yaml};
use super::pod::{list, text};

/// Where the parts of an Envoy configuration are.
const LISTENER: &str = "/static_resources/listeners/0";
const CONNECTION_MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
const HOSTS: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts";

/// The configuration of `deploy/envoy`, without rate limits and without the cluster of tollgate.
fn without_limits() -> Value {
    let written = include_str!("../../../../../deploy/envoy/envoy.yaml");
    let mut config = yaml(written);
    at(&mut config, CONNECTION_MANAGER)["http_filters"].as_array_mut().unwrap().remove(0);
    for host in at(&mut config, HOSTS).as_array_mut().unwrap() {
        host.as_object_mut().unwrap().remove("rate_limits").unwrap();
    }
    config["static_resources"]["clusters"].as_array_mut().unwrap().truncate(1);
    config
}

/// As Istio applies an EnvoyFilter. It has a cluster for each port of each Service.
pub(crate) fn istio(manifests: &Manifests, grpc: SocketAddr) -> Value {
    let mut config = without_limits();
    for patch in list(&manifests.named("EnvoyFilter", "tollgate")["spec"]["configPatches"]) {
        let value = patch["patch"]["value"].clone();
        match (text(&patch["applyTo"]), text(&patch["patch"]["operation"])) {
            ("HTTP_FILTER", "INSERT_BEFORE") => insert_filter(&mut config, value),
            ("VIRTUAL_HOST", "MERGE") => merge_into_hosts(&mut config, &value),
            other => panic!("{other:?}"),
        }
    }
    add_cluster(&mut config, "outbound|8081||tollgate.tollgate.svc.cluster.local", grpc);
    config
}

/// As Envoy Gateway applies an EnvoyPatchPolicy. Its listener for HTTP has only a default filter chain.
pub(crate) fn envoy_gateway(manifests: &Manifests, grpc: SocketAddr) -> Value {
    let mut config = without_limits();
    for patch in list(&manifests.named("EnvoyPatchPolicy", "tollgate")["spec"]["jsonPatches"]) {
        let operation = &patch["operation"];
        assert_eq!(operation["op"], "add");
        let (path, value) = (text(&operation["path"]), operation["value"].clone());
        match text(&patch["type"]).rsplit('.').next().unwrap() {
            "Listener" => {
                let path = path.replace("/default_filter_chain/", "/filter_chains/0/");
                assert_eq!(format!("{LISTENER}{path}"), format!("{CONNECTION_MANAGER}/http_filters/0"));
                insert_filter(&mut config, value);
            }
            "RouteConfiguration" => {
                assert_eq!(operation["jsonPath"], "..virtual_hosts[*]");
                merge_into_hosts(&mut config, &json!({ path: value }));
            }
            "Cluster" => add_named_cluster(&mut config, value, grpc),
            other => panic!("{other}"),
        }
    }
    config
}

/// As Contour translates its resources.
pub(crate) fn contour(manifests: &Manifests, grpc: SocketAddr) -> Value {
    let mut config = without_limits();
    let service = &manifests.named("ContourConfiguration", "contour")["spec"]["rateLimitService"];
    let extension = manifests.named("ExtensionService", text(&service["extensionService"]["name"]));
    assert_eq!(extension["metadata"]["namespace"], service["extensionService"]["namespace"]);
    let milliseconds: u32 =
        text(&extension["spec"]["timeoutPolicy"]["response"]).trim_end_matches("ms").parse().unwrap();
    insert_filter(
        &mut config,
        json!({
            "name": "envoy.filters.http.ratelimit",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
                "domain": service["domain"],
                "timeout": format!("0.{milliseconds:03}s"),
                "failure_mode_deny": !service["failOpen"].as_bool().unwrap(),
                "rate_limit_service": {
                    "transport_api_version": "V3",
                    // Contour sets an authority, because servers refuse one with slashes.
                    "grpc_service": { "envoy_grpc": {
                        "cluster_name": "extension/tollgate/tollgate",
                        "authority": "extension.tollgate.tollgate",
                    } },
                },
            },
        }),
    );
    let limits =
        &manifests.named("HTTPProxy", "shop")["spec"]["virtualhost"]["rateLimitPolicy"]["global"]["descriptors"];
    let limits: Vec<Value> = list(limits)
        .iter()
        .map(|descriptor| json!({ "actions": list(&descriptor["entries"]).iter().map(action).collect::<Vec<_>>() }))
        .collect();
    merge_into_hosts(&mut config, &json!({ "rate_limits": limits }));
    add_cluster(&mut config, "extension/tollgate/tollgate", grpc);
    config
}

/// The action of Envoy for an entry of a descriptor of Contour.
fn action(entry: &Value) -> Value {
    if entry["remoteAddress"].is_object() {
        return json!({ "remote_address": {} });
    }
    let header = &entry["requestHeader"];
    json!({ "request_headers": { "header_name": header["headerName"], "descriptor_key": header["descriptorKey"] } })
}

/// Inserts a filter before the router, which is the only other one.
fn insert_filter(config: &mut Value, filter: Value) {
    at(config, CONNECTION_MANAGER)["http_filters"].as_array_mut().unwrap().insert(0, filter);
}

fn merge_into_hosts(config: &mut Value, members: &Value) {
    for host in at(config, HOSTS).as_array_mut().unwrap() {
        host.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    }
}

fn add_cluster(config: &mut Value, name: &str, grpc: SocketAddr) {
    let endpoint = json!({ "address": { "socket_address": { "address": "0.0.0.0", "port_value": 8081 } } });
    let cluster = json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": { "http2_protocol_options": {} },
        } },
        "load_assignment": { "cluster_name": name, "endpoints": [{ "lb_endpoints": [{ "endpoint": endpoint }] }] },
    });
    add_named_cluster(config, cluster, grpc);
}

/// Adds a cluster, with the address of the test.
fn add_named_cluster(config: &mut Value, mut cluster: Value, grpc: SocketAddr) {
    let address = "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address";
    assert_eq!(at(&mut cluster, address)["port_value"], 8081);
    *at(&mut cluster, address) = json!({ "address": grpc.ip().to_string(), "port_value": grpc.port() });
    config["static_resources"]["clusters"].as_array_mut().unwrap().push(cluster);
}

/// Sets the ports of the listener and of the upstream, and a timeout for machines under load.
pub(crate) fn for_test(mut config: Value, listener: u16, upstream: SocketAddr) -> Value {
    at(&mut config, LISTENER)["address"]["socket_address"]["port_value"] = listener.into();
    let service =
        "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address";
    at(&mut config, service)["port_value"] = upstream.port().into();
    let timeout = &mut at(&mut config, CONNECTION_MANAGER)["http_filters"][0]["typed_config"]["timeout"];
    assert!(text(timeout).trim_end_matches("0s").starts_with("0.25"), "{timeout}");
    *timeout = "5s".into();
    config
}

fn at<'a>(value: &'a mut Value, pointer: &str) -> &'a mut Value {
    value.pointer_mut(pointer).unwrap_or_else(|| panic!("there is no {pointer}"))
}

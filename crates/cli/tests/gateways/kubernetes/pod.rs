//! A pod of the Deployment on this machine: its command line, volumes, variables and probes, on other ports.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tollgate_testbed::{ChildProcess, TemporaryDirectory};

use super::manifests::Manifests;
use crate::client::{Client, GatewayResponse};

/// The value of every key of every Secret.
pub(crate) const SECRET: &str = "the-value-of-a-secret";

pub(crate) struct Pod {
    pub(crate) process: ChildProcess,
    /// The actual address of each container port.
    ports: Vec<(String, SocketAddr)>,
    container: Value,
    files: TemporaryDirectory,
}

impl Pod {
    /// Starts the program as the kubelet would.
    pub(crate) fn start(manifests: &Manifests) -> Pod {
        let container = manifests.container().clone();
        let files = TemporaryDirectory::new("pod").unwrap();
        for mount in list(&container["volumeMounts"]) {
            mount_volume(manifests, mount, files.path());
        }
        assert_eq!(container["command"], serde_json::json!(["/usr/bin/tollgate"]));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(arguments(&container, files.path())).env_clear().envs(variables(&container));
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = ChildProcess::start(&mut command).unwrap();
        let ports = list(&container["ports"]).iter().map(|port| listening(&mut process, port)).collect();
        process.drain_output();
        Pod { process, ports, container, files }
    }

    /// The address of a container port.
    pub(crate) fn port(&self, name: &str) -> SocketAddr {
        let found = self.ports.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("there is no port {name}")).1
    }

    pub(crate) fn get(&self, port: &str, path: &str, fields: &[(&str, &str)]) -> GatewayResponse {
        Client { host: 1, gateway: self.port(port) }.send("GET", path, fields, "").unwrap()
    }

    /// The status that a probe gets.
    pub(crate) fn probe(&self, name: &str) -> u16 {
        let probe = &self.container[name]["httpGet"];
        self.get(text(&probe["port"]), text(&probe["path"]), &[]).status
    }

    /// Replaces the files of a volume, as the kubelet does: a new directory, and the link to it.
    pub(crate) fn update(&self, mount_path: &str, file: &str, content: &str) {
        let volume = at(self.files.path(), mount_path);
        std::fs::create_dir(volume.join("..new")).unwrap();
        std::fs::write(volume.join("..new").join(file), content).unwrap();
        symlink("..new", volume.join("..data_tmp")).unwrap();
        std::fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    }
}

/// The path of the container on this machine.
fn at(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn mount_volume(manifests: &Manifests, mount: &Value, root: &Path) {
    let volume = list(&manifests.pod()["volumes"]).iter().find(|volume| volume["name"] == mount["name"]).unwrap();
    let place = at(root, text(&mount["mountPath"]));
    std::fs::create_dir_all(place.join("..old")).unwrap();
    symlink("..old", place.join("..data")).unwrap();
    for (file, content) in files_of(manifests, volume) {
        std::fs::write(place.join("..old").join(&file), content).unwrap();
        symlink(Path::new("..data").join(&file), place.join(&file)).unwrap();
    }
}

fn files_of(manifests: &Manifests, volume: &Value) -> Vec<(String, String)> {
    if volume["secret"].is_object() {
        return vec![("token".to_owned(), SECRET.to_owned())];
    }
    let data = &manifests.named("ConfigMap", text(&volume["configMap"]["name"]))["data"];
    data.as_object().unwrap().iter().map(|(file, content)| (file.clone(), text(content).to_owned())).collect()
}

/// The arguments, with files of this machine and free ports.
fn arguments(container: &Value, root: &Path) -> Vec<String> {
    let mounts = list(&container["volumeMounts"]);
    let adapted = |argument: &Value| {
        let mut argument = text(argument).to_owned();
        for mount in mounts {
            let path = text(&mount["mountPath"]);
            argument = argument.replace(path, at(root, path).to_str().unwrap());
        }
        for port in list(&container["ports"]) {
            let written = format!("--{}=0.0.0.0:{}", text(&port["name"]), port["containerPort"]);
            if argument == written {
                argument = format!("--{}=0.0.0.0:0", text(&port["name"]));
            }
        }
        assert!(
            !argument.ends_with(|c: char| c.is_ascii_digit()) || argument.ends_with(":0"),
            "{argument}: no such port"
        );
        argument
    };
    list(&container["args"]).iter().map(adapted).collect()
}

fn variables(container: &Value) -> Vec<(String, String)> {
    let variables = container["env"].as_array().map_or(&[][..], Vec::as_slice);
    variables.iter().map(|variable| (text(&variable["name"]).to_owned(), SECRET.to_owned())).collect()
}

/// The address in the log, which is one JSON object a line.
fn listening(process: &mut ChildProcess, port: &Value) -> (String, SocketAddr) {
    let name = text(&port["name"]);
    while let Some(line) = process.line().unwrap() {
        let entry: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if let Some(address) = text(&entry["message"]).strip_prefix(&format!("{name} listening on http://")) {
            let address: SocketAddr = address.parse().unwrap();
            return (name.to_owned(), SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())));
        }
    }
    panic!("the program has ended before it listens on {name}")
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

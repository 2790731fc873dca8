//! The manifests of `deploy/kubernetes`, as Kubernetes gets them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::Value;
use tollgate_testbed::TemporaryDirectory;

/// Objects of Kubernetes.
#[derive(Clone, Debug)]
pub(crate) struct Manifests(pub(crate) Vec<Value>);

impl Manifests {
    /// Renders a kustomization, once.
    pub(crate) fn rendered(kustomization: &'static str) -> Manifests {
        static RENDERED: Mutex<BTreeMap<&str, Manifests>> = Mutex::new(BTreeMap::new());
        let mut rendered = RENDERED.lock().unwrap();
        rendered.entry(kustomization).or_insert_with(|| Manifests::render(kustomization)).clone()
    }

    fn render(kustomization: &str) -> Manifests {
        Manifests::built(&deployed(kustomization))
    }

    /// Renders a kustomization that refers to those of `deploy/kubernetes` by `PATH/`.
    pub(crate) fn of_user(kustomization: &str) -> Manifests {
        let directory = TemporaryDirectory::new("kustomization").unwrap();
        let place = directory.path().canonicalize().unwrap();
        // kustomize accepts only relative paths.
        let root = "../".repeat(place.components().count() - 1);
        let deployed = deployed("").canonicalize().unwrap();
        let path = format!("{root}{}/", deployed.strip_prefix("/").unwrap().display());
        std::fs::write(place.join("kustomization.yaml"), kustomization.replace("PATH/", &path)).unwrap();
        Manifests::built(&place)
    }

    fn built(directory: &Path) -> Manifests {
        let program = std::env::var_os("KUSTOMIZE").unwrap_or_else(|| "kustomize".into());
        Manifests::parse(&stdout_of(Command::new(program).arg("build").arg(directory), "")).unwrap()
    }

    /// Reads a file.
    pub(crate) fn file(name: &str) -> Manifests {
        Manifests::parse(&std::fs::read_to_string(deployed(name)).unwrap()).unwrap()
    }

    /// Parses YAML, and validates the objects; an error says which is invalid.
    pub(crate) fn parse(text: &str) -> Result<Manifests, String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateways/kubernetes/manifests.py");
        let parsed: Value = serde_json::from_str(&run(python().arg(script), text)?).unwrap();
        let manifests = Manifests(parsed["manifests"].as_array().unwrap().clone());
        let custom = parsed["custom"].as_array().unwrap();
        let is_custom = |manifest: &&Value| custom.contains(&manifest["kind"]);
        let resources: Vec<&Value> = manifests.0.iter().filter(is_custom).collect();
        if !resources.is_empty() {
            validate_custom(&resources)?;
        }
        Ok(manifests)
    }

    /// The same with a text replaced, which must occur.
    pub(crate) fn with(&self, text: &str, replacement: &str) -> Manifests {
        let all = serde_json::to_string(&self.0).unwrap();
        assert!(all.contains(text), "{text} does not occur");
        Manifests(serde_json::from_str(&all.replace(text, replacement)).unwrap())
    }

    pub(crate) fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|manifest| manifest["kind"] == kind).collect()
    }

    /// The object of a kind and a name.
    pub(crate) fn named(&self, kind: &str, name: &str) -> &Value {
        let found = self.of_kind(kind).into_iter().find(|manifest| manifest["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// The spec of the pods.
    pub(crate) fn pod(&self) -> &Value {
        &self.named("Deployment", "tollgate")["spec"]["template"]["spec"]
    }

    /// The container of the pods.
    pub(crate) fn container(&self) -> &Value {
        let containers = self.pod()["containers"].as_array().unwrap();
        assert_eq!(containers.len(), 1);
        &containers[0]
    }
}

/// Parses any YAML file.
pub(crate) fn yaml(text: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateways/kubernetes/manifests.py");
    let parsed: Value = serde_json::from_str(&stdout_of(python().arg(script).arg("--plain"), text)).unwrap();
    parsed["manifests"][0].clone()
}

/// A path in `deploy/kubernetes`.
pub(crate) fn deployed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes").join(path)
}

fn validate_custom(resources: &[&Value]) -> Result<(), String> {
    let mut node = Command::new("node");
    // Modules are resolved from the working directory only if the script is an argument.
    node.args(["--input-type=module", "--eval", include_str!("custom_resources.mjs")]);
    node.current_dir(std::env::var_os("KUBERNETES").expect("KUBERNETES is the directory of @kubernetes-models/*"));
    let report = run(&mut node, &serde_json::to_string(resources).unwrap())?;
    assert_eq!(report, format!("{} valid\n", resources.len()));
    Ok(())
}

fn python() -> Command {
    let mut python = Command::new("python3");
    if let Some(packages) = std::env::var_os("KUBERNETES_VALIDATE") {
        python.env("PYTHONPATH", packages);
    }
    python
}

fn stdout_of(command: &mut Command, stdin: &str) -> String {
    run(command, stdin).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a program: its stdout, or its stderr as an error.
fn run(command: &mut Command, stdin: &str) -> Result<String, String> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = piped.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
    process.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

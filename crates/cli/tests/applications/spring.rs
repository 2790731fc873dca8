//! `examples/spring`, in Tomcat. Debian's Spring is from before the packages `javax` were renamed to `jakarta`, so the
//! test renames them in the filter.

use std::path::Path;
use std::process::{Command, Stdio};

use tollgate_testbed::TemporaryDirectory;

use crate::application::{Framework, examples, packages, scripts};
use crate::scenarios;

const SPRING: Framework = Framework { command };

const LIBRARIES: [&str; 20] = [
    "commons-logging",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "spring3-beans",
    "spring3-context",
    "spring3-core",
    "spring3-web",
    "tomcat9-annotations-api",
    "tomcat9-api",
    "tomcat9-catalina",
    "tomcat9-coyote",
    "tomcat9-el-api",
    "tomcat9-jaspic-api",
    "tomcat9-jni",
    "tomcat9-jsp-api",
    "tomcat9-juli",
    "tomcat9-servlet-api",
    "tomcat9-util",
    "tomcat9-util-scan",
];

/// Compiles the filter, and returns the command that serves it.
fn command(files: &TemporaryDirectory) -> Command {
    let path = class_path(files.path());
    let filter = std::fs::read_to_string(examples().join("spring/TollgateFilter.java")).unwrap();
    assert!(filter.contains("jakarta.servlet"));
    let source = files.path().join("TollgateFilter.java");
    std::fs::write(&source, filter.replace("jakarta.servlet", "javax.servlet")).unwrap();
    let mut compiler = Command::new("javac");
    compiler.arg("-cp").arg(&path).arg("-d").arg(files.path()).arg(source).arg(scripts().join("ServeSpring.java"));
    assert!(compiler.stdin(Stdio::null()).status().unwrap().success());
    let mut java = Command::new("java");
    // Compiled quickly and without optimisation. Its messages at start and about outages are of no use.
    java.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", &path, "ServeSpring"])
        .arg(files.path())
        .stderr(Stdio::null());
    java
}

fn class_path(compiled: &Path) -> String {
    let directory = packages("spring");
    let library = |name: &&str| directory.join(name).with_extension("jar").display().to_string();
    let libraries: Vec<String> = LIBRARIES.iter().map(library).collect();
    format!("{}:{}", compiled.display(), libraries.join(":"))
}

#[test]
#[ignore = "needs Spring"]
fn requests_are_limited_by_address_path_and_header() {
    scenarios::limited_by_address_path_and_header(&SPRING);
}

#[test]
#[ignore = "needs Spring"]
fn connections_are_kept() {
    scenarios::connections_to_tollgate_are_kept(&SPRING);
}

#[test]
#[ignore = "needs Spring"]
fn application_passes_or_refuses_as_configured_while_tollgate_is_down() {
    scenarios::passes_or_refuses_without_tollgate(&SPRING);
}

#[test]
#[ignore = "needs Spring"]
fn unchecked_requests_are_refused() {
    scenarios::excessive_header_fields_are_refused(&SPRING);
}

//! `examples/flask`.

use crate::application::{Framework, interpreted};
use crate::scenarios;

const FLASK: Framework = Framework { command: |_| interpreted("python3", "serve_wsgi.py", "flask", "PYTHONPATH") };

#[test]
#[ignore = "needs Flask"]
fn requests_are_limited_by_address_path_and_header() {
    scenarios::limited_by_address_path_and_header(&FLASK);
}

#[test]
#[ignore = "needs Flask"]
fn connections_are_kept() {
    scenarios::connections_to_tollgate_are_kept(&FLASK);
}

#[test]
#[ignore = "needs Flask"]
fn application_passes_or_refuses_as_configured_while_tollgate_is_down() {
    scenarios::passes_or_refuses_without_tollgate(&FLASK);
}

#[test]
#[ignore = "needs Flask"]
fn unchecked_requests_are_refused() {
    scenarios::excessive_header_fields_are_refused(&FLASK);
}

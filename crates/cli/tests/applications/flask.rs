//! `examples/flask`.

use crate::application::Framework;
use crate::scenarios;

const FLASK: Framework = Framework { name: "flask", program: "python3", script: "serve_wsgi.py", path: "PYTHONPATH" };

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

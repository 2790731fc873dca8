//! `examples/fastapi`.

use crate::application::{Framework, interpreted};
use crate::scenarios;

const FASTAPI: Framework = Framework { command: |_| interpreted("python3", "serve_asgi.py", "fastapi", "PYTHONPATH") };

#[test]
#[ignore = "needs FastAPI"]
fn requests_are_limited_by_address_path_and_header() {
    scenarios::limited_by_address_path_and_header(&FASTAPI);
}

#[test]
#[ignore = "needs FastAPI"]
fn connections_are_kept() {
    scenarios::connections_to_tollgate_are_kept(&FASTAPI);
}

#[test]
#[ignore = "needs FastAPI"]
fn application_passes_or_refuses_as_configured_while_tollgate_is_down() {
    scenarios::passes_or_refuses_without_tollgate(&FASTAPI);
}

#[test]
#[ignore = "needs FastAPI"]
fn unchecked_requests_are_refused() {
    scenarios::excessive_header_fields_are_refused(&FASTAPI);
}

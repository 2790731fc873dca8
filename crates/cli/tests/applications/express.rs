//! `examples/express`.

use crate::application::{Framework, interpreted};
use crate::scenarios;

const EXPRESS: Framework = Framework { command: |_| interpreted("node", "serve_express.js", "express", "NODE_PATH") };

#[test]
#[ignore = "needs Express"]
fn requests_are_limited_by_address_path_and_header() {
    scenarios::limited_by_address_path_and_header(&EXPRESS);
}

#[test]
#[ignore = "needs Express"]
fn connections_are_kept() {
    scenarios::connections_to_tollgate_are_kept(&EXPRESS);
}

#[test]
#[ignore = "needs Express"]
fn application_passes_or_refuses_as_configured_while_tollgate_is_down() {
    scenarios::passes_or_refuses_without_tollgate(&EXPRESS);
}

#[test]
#[ignore = "needs Express"]
fn unchecked_requests_are_refused() {
    scenarios::excessive_header_fields_are_refused(&EXPRESS);
}

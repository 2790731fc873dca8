use crate::service::{PageService, TOKEN};

#[test]
#[ignore = "needs chromium"]
fn panels_show_what_the_api_returns() {
    PageService::serve(&[]).run("panels.js");
}

#[test]
#[ignore = "needs chromium"]
fn decisions_appear_within_two_seconds_and_a_cut_connection_recovers() {
    PageService::serve(&[]).run("connection.js");
}

#[test]
#[ignore = "needs chromium"]
fn keys_are_inspected_reset_and_overridden_after_a_confirmation() {
    PageService::serve(&[]).run("keys.js");
}

#[test]
#[ignore = "needs chromium"]
fn reloads_and_their_errors_are_shown_without_credentials() {
    PageService::serve(&[]).run("policy.js");
}

#[test]
#[ignore = "needs chromium"]
fn page_shows_nothing_without_the_admin_token() {
    let directory = tollgate_testbed::TemporaryDirectory::new("page-token").unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    PageService::serve(&["--admin-token-file", file.to_str().unwrap()]).run("token.js");
}

#[test]
#[ignore = "needs chromium"]
fn hostile_identities_are_shown_as_text() {
    PageService::serve(&["--log-identities", "plain"]).run("hostile.js");
}

#[test]
#[ignore = "needs chromium"]
fn page_is_accessible_in_both_themes_and_on_narrow_screens() {
    PageService::serve(&[]).run("accessibility.js");
}

#[test]
#[ignore = "needs chromium"]
fn page_is_small_and_runs_only_its_own_scripts() {
    PageService::serve(&[]).run("security.js");
}

use crate::limited_api::run_program_of_the_page;

#[test]
#[ignore = "needs node"]
fn javascript_program_of_the_page_is_not_refused() {
    run_program_of_the_page("javascript", "node", "js");
}

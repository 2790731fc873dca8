use crate::limited_api::run_program_of_the_page;

#[test]
#[ignore = "needs python3"]
fn python_program_of_the_page_is_not_refused() {
    run_program_of_the_page("python", "python3", "py");
}

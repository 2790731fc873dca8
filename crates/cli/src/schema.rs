use tollgate::policy::json_schema;

use crate::answer;
use crate::exit::Exit;
use crate::failure::Failure;

pub(crate) fn schema() -> Result<Exit, Failure> {
    let schema = json_schema();
    answer::print(&format!("{}\n", schema.trim_end()))?;
    Ok(Exit::Done)
}

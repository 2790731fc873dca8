//! What the commands of the workbench share: reading logs, tables, and files with charts.

pub(crate) mod logs;
pub(crate) mod plot_file;
pub(crate) mod progress_bar;
pub(crate) mod table;

use std::path::{Path, PathBuf};

use tollgate_workbench::plot::Drawing;

use crate::exit::Failure;
use crate::output::log_info;

/// The help of every `--plot`.
pub(crate) const PLOT_HELP: &str = "Write a chart to this file, as its name ends: .svg or .png";

/// A file for a chart, whose name ends with a known format.
#[derive(Clone, Debug)]
pub(crate) struct PlotFile {
    path: PathBuf,
    format: PlotFormat,
}

#[derive(Clone, Copy, Debug)]
enum PlotFormat {
    Svg,
    Png,
}

/// The expected names of charts.
#[derive(Debug, thiserror::Error)]
#[error("expected a file name that ends in .svg or .png")]
pub(crate) struct ExpectedPlotFile;

impl PlotFile {
    /// Parses the name of a file.
    pub(crate) fn parse(name: &str) -> Result<PlotFile, ExpectedPlotFile> {
        let path = PathBuf::from(name);
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        let format = match extension.to_str() {
            Some("svg") => PlotFormat::Svg,
            Some("png") => PlotFormat::Png,
            _ => return Err(ExpectedPlotFile),
        };
        Ok(PlotFile { path, format })
    }

    /// Writes a chart.
    pub(crate) fn write(&self, drawing: &Drawing) -> Result<(), Failure> {
        let written = match self.format {
            PlotFormat::Svg => std::fs::write(&self.path, drawing.to_svg()),
            PlotFormat::Png => drawing.to_png().and_then(|png| std::fs::write(&self.path, png)),
        };
        let path = self.path.display();
        written.map_err(|error| cannot_write(&self.path, &error))?;
        log_info(format_args!("wrote {path}"));
        Ok(())
    }
}

/// The failure of writing a file.
pub(crate) fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}

//! Arguments of `tidegate iotune`.

use std::path::PathBuf;

use clap::Args;

/// How a disk is measured.
#[derive(Debug, Clone, Args)]
pub struct IotuneArguments {
    /// Directory on the disk; figures are written there [default: that of --data].
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Measure although others use the disk.
    #[arg(long)]
    pub force: bool,
    /// Then measure reads beside writes and draw their latency, here and as io-grid.svg in DIR:
    /// half a minute more.
    #[arg(long)]
    pub grid: bool,
    /// Seconds that the measurement takes.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(2..=600))]
    pub seconds: u16,
}

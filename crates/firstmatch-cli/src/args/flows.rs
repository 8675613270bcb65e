//! Options for packets whose text does not say all, and for flow logs.

use anyhow::anyhow;
use clap::ValueEnum;
use firstmatch_net::source::{FlowFormat, FlowOptions, Input, InputFormat, SourceError};

/// Format of the packets, and the way in which flow logs are read.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Packets and flow logs")]
pub(crate) struct FlowArgs {
    /// The format of the packets; without this it is found from the text
    #[arg(short, long, value_name = "FORMAT")]
    format: Option<PacketFormat>,
    /// The columns of a flow log: `src=pkt-srcaddr` names the column of a part of flows, and names with commas between
    /// are all columns of a file that does not name them (docs/flow-logs.md)
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Count malformed rows of flow logs and pass over them; without this the first one ends the input
    #[arg(long)]
    skip_bad: bool,
    /// Decide the way back, too, of rows of flow logs that have both directions
    #[arg(long)]
    pub(crate) both_ways: bool,
}

/// Formats of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PacketFormat {
    /// A capture (pcap, pcapng)
    Capture,
    /// A ClassBench trace
    Trace,
    /// A table of header fields (CSV)
    Table,
    /// A VPC flow log of AWS, or any text whose columns `--columns` names
    Aws,
    /// The log conn of Zeek
    Zeek,
    /// The CSV of nfdump
    Nfdump,
    /// The events of Suricata (eve.json)
    Suricata,
    /// Flow logs of network security groups or virtual networks of Azure
    Azure,
    /// VPC flow logs of Google Cloud
    Gcp,
}

impl FlowArgs {
    /// Returns the options for flow logs.
    pub(crate) fn options(&self, metadata: Option<u64>) -> anyhow::Result<FlowOptions> {
        let options = FlowOptions::default().columns(&self.columns).map_err(|error| anyhow!("--columns: {error}"))?;
        let Self { skip_bad, both_ways, .. } = *self;
        Ok(options.skip_bad(skip_bad).both_ways(both_ways).metadata(metadata.unwrap_or(0)))
    }

    /// Returns the input in the format that was asked for.
    ///
    /// Text of no flow log is one of AWS if columns are given, because they say all that its text does not.
    pub(crate) fn apply(&self, input: Input) -> Result<Input, SourceError> {
        let is_other_text = matches!(input, Input::Trace(_) | Input::Table(_));
        match self.format {
            Some(format) => input.with_format(format.into()),
            None if is_other_text && !self.columns.is_empty() => input.with_format(PacketFormat::Aws.into()),
            None => Ok(input),
        }
    }

    /// Returns the first option that is for flow logs alone, if one is given.
    pub(crate) fn of_flows(&self) -> Option<&'static str> {
        let given =
            [(!self.columns.is_empty(), "--columns"), (self.skip_bad, "--skip-bad"), (self.both_ways, "--both-ways")];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }
}

impl From<PacketFormat> for InputFormat {
    fn from(format: PacketFormat) -> Self {
        match format {
            PacketFormat::Capture => Self::Capture,
            PacketFormat::Trace => Self::Trace,
            PacketFormat::Table => Self::Table,
            PacketFormat::Aws => Self::Flows(FlowFormat::Aws),
            PacketFormat::Zeek => Self::Flows(FlowFormat::Zeek),
            PacketFormat::Nfdump => Self::Flows(FlowFormat::Nfdump),
            PacketFormat::Suricata => Self::Flows(FlowFormat::Suricata),
            PacketFormat::Azure => Self::Flows(FlowFormat::Azure),
            PacketFormat::Gcp => Self::Flows(FlowFormat::Gcp),
        }
    }
}

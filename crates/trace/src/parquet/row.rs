//! One row as a request, with a message for each value that is not allowed.

use block::{Nanos, Op, Priority, PriorityClass};
use parquet::data_type::ByteArray;

use super::super::TraceRequest;
use super::CLASSES;

/// One row of the file.
pub(super) struct Row<'a> {
    pub(super) arrival: Option<i64>,
    pub(super) lba: Option<i64>,
    pub(super) sectors: Option<i64>,
    pub(super) operation: Result<Op, String>,
    pub(super) device: Option<i64>,
    pub(super) device_name: Option<&'a ByteArray>,
    pub(super) sync: Option<bool>,
    pub(super) stream: Option<i64>,
    pub(super) stream_name: Option<&'a ByteArray>,
    pub(super) priority_class: Option<&'a ByteArray>,
    pub(super) priority_level: Option<i64>,
    pub(super) response: Option<i64>,
    pub(super) service: Option<i64>,
}

impl Row<'_> {
    /// The request; `None` if it covers no sectors.
    pub(super) fn request(&self) -> Result<Option<TraceRequest>, String> {
        let sectors = within("sectors", self.sectors, u32::MAX.into())? as u32;
        let lba = within("lba", self.lba, (1 << 55) - i64::from(sectors))? as u64;
        let request = TraceRequest {
            arrival: Nanos(within("arrival_ns", self.arrival, i64::MAX)? as u64),
            device: within("device", self.device, u32::MAX.into())? as u32,
            lba,
            sectors,
            op: self.operation.clone()?,
            sync: self.sync,
            stream: within("stream", self.stream, u32::MAX.into())? as u32,
            priority: Priority {
                class: self.priority_class.map_or(Ok(Priority::DEFAULT.class), class)?,
                level: level(self.priority_level)?,
            },
            response: span("response_ns", self.response)?,
            service: span("service_ns", self.service)?,
        };
        Ok((sectors > 0).then_some(request))
    }
}

/// Operation of a request.
pub(super) fn operation(is_read: Option<bool>, is_discard: Option<bool>) -> Result<Op, String> {
    match (is_read.ok_or("is_read is null")?, is_discard.unwrap_or_default()) {
        (true, false) => Ok(Op::Read),
        (false, false) => Ok(Op::Write),
        (false, true) => Ok(Op::Discard),
        (true, true) => Err("is_read and is_discard are both true: a request is one of them".into()),
    }
}

pub(super) fn class(name: &ByteArray) -> Result<PriorityClass, String> {
    let class = CLASSES.iter().find(|(known, _)| known.as_bytes() == name.data());
    let shown = || name.data().escape_ascii().to_string();
    Ok(class.ok_or_else(|| format!("priority_class is \"{}\", not realtime, best-effort or idle", shown()))?.1)
}

pub(super) fn level(value: Option<i64>) -> Result<u8, String> {
    match value {
        None => Ok(Priority::DEFAULT.level),
        some => Ok(within("priority_level", some, 7)? as u8),
    }
}

/// Converts nanoseconds to a duration; `None` if the value is null.
pub(super) fn span(name: &str, value: Option<i64>) -> Result<Option<Nanos>, String> {
    match value {
        None => Ok(None),
        some => Ok(Some(Nanos(within(name, some, i64::MAX)? as u64))),
    }
}

pub(super) fn within(column: &str, value: Option<i64>, max: i64) -> Result<i64, String> {
    match value {
        Some(value) if (0..=max).contains(&value) => Ok(value),
        Some(value) => Err(format!("{column} is {value}, not from 0 to {max}")),
        None => Err(format!("{column} is null")),
    }
}

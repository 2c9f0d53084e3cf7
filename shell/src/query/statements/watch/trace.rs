//! RECORD TRACE: records the requests to the caches in a file.

use crate::query::error::{QueryError, Result, Span};
use crate::query::outcome::Outcome;
use crate::query::parse::Cursor;
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};

#[derive(Debug)]
pub enum RecordTrace {
    /// `RECORD TRACE 'file'`.
    To {
        file: String,
        file_span: Span,
        /// Reads after which it ends by itself.
        reads_max: Option<u64>,
    },
    /// `RECORD TRACE STOP`.
    Stop,
}

impl Read for RecordTrace {
    /// `[TO] 'file' [FOR n [EVENTS]]`, or `STOP`.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        if cursor.take_word("stop") {
            return Ok(RecordTrace::Stop);
        }
        cursor.take_word("to");
        let (file, file_span) = cursor.string("a file name in quotes, or STOP")?;
        let mut reads_max = None;
        if cursor.take_word("for") {
            let span = cursor.span();
            let number = cursor.number("a number of events")?;
            let number = u64::try_from(number).ok().filter(|number| *number > 0);
            let wrong = || QueryError::invalid("a recording takes one event at least").at(span);
            reads_max = Some(number.ok_or_else(wrong)?);
            cursor.take_word("events");
        }
        Ok(RecordTrace::To { file, file_span, reads_max })
    }
}

impl OwnStatement for RecordTrace {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        match self {
            RecordTrace::To { file, file_span, reads_max } => {
                begin(session, (file, *file_span), *reads_max).await
            }
            RecordTrace::Stop => stop(session).await,
        }
    }
}

async fn begin(
    session: &Session,
    (file, span): (&str, Span),
    reads_max: Option<u64>,
) -> Result<Outcome> {
    session.check_local_files().map_err(|error| error.at(span))?;
    let begun = session.database.record_trace(file.into(), reads_max).await;
    begun.map_err(|error| QueryError::from(error).at(span))?;
    let end = match reads_max {
        Some(reads) => format!("{reads} reads or RECORD TRACE STOP"),
        None => "RECORD TRACE STOP".to_owned(),
    };
    Ok(Outcome::message(format!("Recording the caches' reads to {file} until {end}.")))
}

async fn stop(session: &Session) -> Result<Outcome> {
    let summary = session.database.stop_recording().await?;
    Ok(Outcome::message(format!(
        "{} holds {} reads in {} bytes; {} were lost.",
        summary.path.display(),
        summary.requests,
        summary.bytes,
        summary.lost
    )))
}

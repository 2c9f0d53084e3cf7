//! What the service can do, as drivers ask for it (`GetSqlInfo`).
//!
//! Invariant: every number of the protocol has a value of the type that drivers unbox; a missing
//! one is an exception in a JDBC tool. Limits of 0 mean "no limit that is known".

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow_flight::sql::metadata::SqlInfoDataBuilder;
use arrow_flight::sql::{
    CommandGetSqlInfo, SqlInfo, SqlNullOrdering as NullOrdering, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction,
};
use tonic::Status;

/// The answer to `query`; without numbers in it, everything.
pub(super) fn answer(query: CommandGetSqlInfo) -> Result<RecordBatch, Status> {
    let internal = |error| Status::internal(format!("{error}"));
    let mut builder = SqlInfoDataBuilder::new();
    server(&mut builder);
    language(&mut builder);
    enums(&mut builder);
    limits(&mut builder);
    let all = builder.build().map_err(internal)?;
    query.into_builder(&all).build().map_err(internal)
}

fn server(builder: &mut SqlInfoDataBuilder) {
    use SqlInfo::*;
    builder.append(FlightSqlServerName, "Tidegate");
    builder.append(FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    builder.append(FlightSqlServerArrowVersion, "1.5");
    builder.append(FlightSqlServerSubstraitMinVersion, "");
    builder.append(FlightSqlServerSubstraitMaxVersion, "");
    builder.append(FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    builder.append(FlightSqlServerStatementTimeout, 0);
    builder.append(FlightSqlServerTransactionTimeout, 0);
    for (info, value) in [
        (FlightSqlServerReadOnly, false),
        (FlightSqlServerSql, true),
        (FlightSqlServerSubstrait, false),
        (FlightSqlServerCancel, true),
        (FlightSqlServerBulkIngestion, true),
        (FlightSqlServerIngestTransactionsSupported, false),
    ] {
        builder.append(info, value);
    }
}

fn language(builder: &mut SqlInfoDataBuilder) {
    use SqlInfo::*;
    for (info, value) in [
        (SqlDdlCatalog, false),
        (SqlDdlSchema, true),
        (SqlDdlTable, true),
        (SqlAllTablesAreSelectable, true),
        (SqlSupportsColumnAliasing, true),
        (SqlNullPlusNullIsNull, true),
        (SqlSupportsTableCorrelationNames, true),
        (SqlSupportsDifferentTableCorrelationNames, false),
        (SqlSupportsExpressionsInOrderBy, true),
        (SqlSupportsOrderByUnrelated, true),
        (SqlSupportsLikeEscapeClause, true),
        (SqlSupportsNonNullableColumns, true),
        (SqlSupportsIntegrityEnhancementFacility, false),
        (SqlCatalogAtStart, true),
        (SqlSelectForUpdateSupported, false),
        (SqlStoredProceduresSupported, false),
        (SqlCorrelatedSubqueriesSupported, true),
        (SqlMaxRowSizeIncludesBlobs, true),
        (SqlTransactionsSupported, false),
        (SqlDataDefinitionCausesTransactionCommit, false),
        (SqlDataDefinitionsInTransactionsIgnored, false),
        (SqlBatchUpdatesSupported, true),
        (SqlSavepointsSupported, false),
        (SqlNamedParametersSupported, false),
        (SqlLocatorsUpdateCopy, false),
        (SqlStoredFunctionsUsingCallSyntaxSupported, false),
    ] {
        builder.append(info, value);
    }
    for (info, value) in [
        (SqlIdentifierQuoteChar, "\""),
        (SqlSearchStringEscape, "\\"),
        (SqlExtraNameCharacters, ""),
        (SqlSchemaTerm, "keyspace"),
        (SqlProcedureTerm, "procedure"),
        (SqlCatalogTerm, "catalog"),
    ] {
        builder.append(info, value);
    }
    for (info, values) in [
        (SqlKeywords, KEYWORDS),
        (SqlNumericFunctions, &[]),
        (SqlStringFunctions, STRING_FUNCTIONS),
        (SqlSystemFunctions, &[]),
        (SqlDatetimeFunctions, DATETIME_FUNCTIONS),
    ] {
        builder.append(info, values);
    }
    builder.append(SqlSupportsConvert, BTreeMap::<i32, Vec<i32>>::new());
}

/// Numbers of enums, and bit masks: bit n stands for ordinal n of the enum named beside it.
fn enums(builder: &mut SqlInfoDataBuilder) {
    use SqlInfo::*;
    for (info, value) in [
        (SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32),
        (SqlQuotedIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown as i32),
        (SqlNullOrdering, NullOrdering::SqlNullsSortedHigh as i32),
        (SqlSupportedGroupBy, 0b11), // SqlSupportedGroupBy: unrelated, beyond select
        (SqlSupportedGrammar, 0b11), // SupportedSqlGrammar: minimum, core
        (SqlAnsi92SupportedLevel, 0b1), // SupportedAnsi92SqlGrammarLevel: entry
        (SqlOuterJoinsSupportLevel, 0b110), // SqlOuterJoinsSupportLevel: limited, full
        (SqlSchemasSupportedActions, 0), // SqlSupportedElementActions
        (SqlCatalogsSupportedActions, 0),
        (SqlSupportedPositionedCommands, 0),
        (SqlSupportedSubqueries, 0b111), // SqlSupportedSubqueries: comparison, exists, in
        (SqlSupportedUnions, 0b11),      // SqlSupportedUnions: union, union all
        (SqlSupportedTransactionsIsolationLevels, 0b1), // SqlTransactionIsolationLevel: none
        (SqlSupportedResultSetTypes, 0b10), // SqlSupportedResultSetType: forward only
        (SqlSupportedConcurrenciesForResultSetUnspecified, 0),
        (SqlSupportedConcurrenciesForResultSetForwardOnly, 0b10), // read only
        (SqlSupportedConcurrenciesForResultSetScrollSensitive, 0),
        (SqlSupportedConcurrenciesForResultSetScrollInsensitive, 0),
    ] {
        builder.append(info, value);
    }
}

fn limits(builder: &mut SqlInfoDataBuilder) {
    use SqlInfo::*;
    for (info, value) in [
        (SqlMaxBinaryLiteralLength, 16 << 20),
        (SqlMaxCharLiteralLength, 16 << 20),
        (SqlMaxColumnNameLength, 0),
        (SqlMaxColumnsInGroupBy, 0),
        (SqlMaxColumnsInIndex, 0),
        (SqlMaxColumnsInOrderBy, 0),
        (SqlMaxColumnsInSelect, 0),
        (SqlMaxColumnsInTable, 0),
        (SqlMaxConnections, 0),
        (SqlMaxCursorNameLength, 0),
        (SqlMaxIndexLength, 0),
        (SqlDbSchemaNameLength, 0),
        (SqlMaxProcedureNameLength, 0),
        (SqlMaxCatalogNameLength, 0),
        (SqlMaxRowSize, 16 << 20),
        (SqlMaxStatementLength, 0),
        (SqlMaxStatements, 0),
        (SqlMaxTableNameLength, 0),
        (SqlMaxTablesInSelect, 0),
        (SqlMaxUsernameLength, 0),
        // The JDBC driver unboxes this ordinal as a long.
        (SqlDefaultTransactionIsolation, 0),
    ] {
        builder.append(info, value as i64);
    }
}

/// Words of ours that SQL:2003 does not reserve.
const KEYWORDS: &[&str] = &["CLUSTERING", "FLUSH", "KEYSPACE", "POLICY", "STATIC", "TTL"];
const STRING_FUNCTIONS: &[&str] =
    &["ASCII", "CONCAT", "LEFT", "LENGTH", "LOWER", "LTRIM", "REPLACE", "RTRIM", "UPPER"];
const DATETIME_FUNCTIONS: &[&str] = &["CURRENT_DATE", "CURRENT_TIME", "DATE_PART", "NOW"];

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, UInt32Array};
    use arrow::util::display::array_value_to_string;

    use super::*;

    #[test]
    fn every_number_of_the_protocol_has_a_value() {
        let all = answer(CommandGetSqlInfo { info: Vec::new() }).unwrap();
        let names = all.column(0).as_any().downcast_ref::<UInt32Array>().unwrap();
        let wanted = (0..=11).chain(100..=101).chain(500..=576);
        assert_eq!(names.values().to_vec(), wanted.collect::<Vec<u32>>());
    }

    /// What drivers and tools do or leave by.
    #[test]
    fn each_number_has_its_own_value() {
        use SqlInfo::*;
        for (info, wanted) in [
            (FlightSqlServerName, "Tidegate"),
            (FlightSqlServerVersion, env!("CARGO_PKG_VERSION")),
            (FlightSqlServerReadOnly, "false"),
            (FlightSqlServerSql, "true"),
            (FlightSqlServerSubstrait, "false"),
            (FlightSqlServerTransaction, "0"),
            (FlightSqlServerCancel, "true"),
            (FlightSqlServerBulkIngestion, "true"),
            (FlightSqlServerIngestTransactionsSupported, "false"),
            (SqlDdlCatalog, "false"),
            (SqlDdlSchema, "true"),
            (SqlDdlTable, "true"),
            (SqlIdentifierQuoteChar, "\""),
            (SqlSearchStringEscape, "\\"),
            (SqlSchemaTerm, "keyspace"),
            (SqlCatalogTerm, "catalog"),
            (SqlTransactionsSupported, "false"),
            (SqlSavepointsSupported, "false"),
            (SqlStoredProceduresSupported, "false"),
            (SqlCorrelatedSubqueriesSupported, "true"),
            (SqlSelectForUpdateSupported, "false"),
            (SqlBatchUpdatesSupported, "true"),
            (SqlNamedParametersSupported, "false"),
            (SqlSupportedUnions, "3"),
            (SqlOuterJoinsSupportLevel, "6"),
            (SqlSupportedSubqueries, "7"),
        ] {
            let answer = answer(CommandGetSqlInfo { info: vec![info as u32] }).unwrap();
            assert_eq!(answer.num_rows(), 1, "{info:?}");
            let value = answer.column(1).as_union().value(0);
            assert_eq!(array_value_to_string(&value, 0).unwrap(), wanted, "{info:?}");
        }
    }

    #[test]
    fn a_client_gets_what_it_asks_for() {
        let one = answer(CommandGetSqlInfo { info: vec![8] }).unwrap();
        assert_eq!(one.num_rows(), 1);
    }
}

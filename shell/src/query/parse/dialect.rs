//! How text is parsed: sqlparser's generic dialect, with what it lacks.
//!
//! | what | why |
//! |---|---|
//! | the right operand of `IS [NOT] DISTINCT FROM` ends at AND and OR | sqlparser 0.62 reads a whole expression there: <https://github.com/apache/datafusion-sqlparser-rs/pull/2436> |
//! | `{'k': 1}`, `{'a'}`, `{}` | literals of CQL for maps, sets and values of user types |
//! | `x -> x + 1` | functions over the elements of arrays take it |

use std::any::TypeId;

use sqlparser::ast::{Array, DictionaryField, Expr, Ident, Map, MapEntry, Value};
use sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// See the head of this file.
#[derive(Debug)]
pub struct TideDialect {
    base: GenericDialect,
}

impl TideDialect {
    pub const fn new() -> Self {
        TideDialect { base: GenericDialect {} }
    }
}

/// Hands methods without arguments to the generic dialect.
macro_rules! as_generic {
    ($($name:ident)*) => {
        $(fn $name(&self) -> bool {
            self.base.$name()
        })*
    };
}

impl Dialect for TideDialect {
    // Where the parser asks for the generic dialect it means this one too.
    fn dialect(&self) -> TypeId {
        self.base.dialect()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        self.base.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        self.base.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        self.base.is_identifier_part(ch)
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if parser.peek_token_ref().token != Token::LBrace {
            return None;
        }
        Some(self.braces(parser))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let words: &[Keyword] = &[Keyword::IS, Keyword::DISTINCT, Keyword::FROM];
        let negated: &[Keyword] = &[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM];
        let is_distinct = parser.parse_keywords(words);
        if !is_distinct && !parser.parse_keywords(negated) {
            return None;
        }
        let left = Box::new(expr.clone());
        Some(self.operand(parser).map(Box::new).map(|right| match is_distinct {
            true => Expr::IsDistinctFrom(left, right),
            false => Expr::IsNotDistinctFrom(left, right),
        }))
    }

    // `x -> x + 1` as an argument of `array_transform` and its like.
    fn supports_lambda_functions(&self) -> bool {
        true
    }

    as_generic! {
        supports_unicode_string_literal supports_partition_by_after_order_by
        supports_array_join_syntax supports_group_by_expr supports_group_by_with_modifier
        supports_left_associative_joins_without_parens supports_connect_by
        supports_match_recognize supports_pipe_operator supports_start_transaction_modifier
        supports_window_function_null_treatment_arg supports_dictionary_syntax
        supports_window_clause_named_window_reference supports_parenthesized_set_variables
        supports_select_wildcard_except support_map_literal_syntax allow_extract_custom
        allow_extract_single_quotes supports_extract_comma_syntax
        supports_create_view_comment_syntax supports_parens_around_table_factor
        supports_values_as_table_factor supports_create_index_with_clause
        supports_explain_with_utility_options supports_limit_comma supports_update_order_by
        supports_from_first_select supports_projection_trailing_commas
        supports_asc_desc_in_column_definition supports_try_convert
        supports_bitwise_shift_operators supports_comment_on supports_load_extension
        supports_named_fn_args_with_assignment_operator supports_struct_literal
        supports_empty_projections supports_nested_comments supports_multiline_comment_hints
        supports_user_host_grantee supports_string_escape_constant
        supports_array_typedef_with_brackets supports_match_against supports_set_names
        supports_comma_separated_set_assignments supports_filter_during_aggregation
        supports_select_wildcard_exclude supports_data_type_signed_suffix
        supports_interval_options supports_quote_delimited_string
        supports_select_wildcard_replace supports_select_wildcard_ilike
        supports_select_wildcard_rename supports_optimize_table supports_install supports_detach
        supports_prewhere supports_with_fill supports_limit_by supports_interpolate
        supports_settings supports_select_format supports_comment_optimizer_hint
        supports_constraint_keyword_without_name supports_key_column_option
        supports_comma_separated_trim supports_cte_without_as
        supports_select_item_multi_column_alias supports_xml_expressions
    }
}

impl TideDialect {
    /// The right operand of IS [NOT] DISTINCT FROM. Operators that sqlparser puts below IS, but
    /// which bind closer than it in PostgreSQL (`->`), belong to it.
    fn operand(&self, parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
        let (is, other) = (self.prec_value(Precedence::Is), self.prec_value(Precedence::PgOther));
        let mut operand = parser.parse_subexpr(is)?;
        while other < is && parser.get_next_precedence()? == other {
            operand = parser.parse_infix(operand, other)?;
        }
        Ok(operand)
    }

    /// `{}`, `{a, …}`, `{k: v, …}`, `{field: v, …}`.
    fn braces(&self, parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
        parser.expect_token(&Token::LBrace)?;
        let (mut elements, mut entries, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        while parser.peek_token_ref().token != Token::RBrace {
            let next = [parser.peek_nth_token_ref(0), parser.peek_nth_token_ref(1)];
            let is_field = matches!(
                next.map(|token| &token.token),
                [Token::Word(word), Token::Colon] if is_name(word.keyword)
            );
            if is_field {
                let key: Ident = parser.parse_identifier()?;
                parser.expect_token(&Token::Colon)?;
                fields.push(DictionaryField { key, value: Box::new(parser.parse_expr()?) });
            } else {
                // A colon is an operator to sqlparser.
                let mut first = parser.parse_subexpr(self.prec_value(Precedence::DoubleColon))?;
                while parser.peek_token_ref().token != Token::Colon {
                    let precedence = parser.get_next_precedence()?;
                    if precedence == self.prec_unknown() {
                        break;
                    }
                    first = parser.parse_infix(first, precedence)?;
                }
                match parser.consume_token(&Token::Colon) {
                    true => {
                        let value = Box::new(parser.parse_expr()?);
                        entries.push(MapEntry { key: Box::new(first), value });
                    }
                    false => elements.push(first),
                }
            }
            let kinds = [elements.is_empty(), entries.is_empty(), fields.is_empty()];
            if kinds.iter().filter(|is_empty| !**is_empty).count() > 1 {
                return parser.expected_ref("elements of one kind", parser.peek_token_ref());
            }
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RBrace)?;
        Ok(if !fields.is_empty() {
            Expr::Dictionary(fields)
        } else if !entries.is_empty() {
            Expr::Map(Map { entries })
        } else {
            Expr::Array(Array { elem: elements, named: false })
        })
    }
}

/// Whether a word is a name and no literal.
fn is_name(keyword: Keyword) -> bool {
    !matches!(keyword, Keyword::TRUE | Keyword::FALSE | Keyword::NULL)
}

/// A text literal's text.
pub fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

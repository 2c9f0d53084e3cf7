pub async fn serve(
    database: tidegate_engine::Database,
    listen: std::net::SocketAddr,
) -> Result<(), String> {
    let _ = (database, listen);
    Ok(())
}

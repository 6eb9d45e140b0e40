// Exits with 0 if the process in this container answers, else with 1: the health check of the image.
//   node healthcheck.js [port] [path]    default: the operating API's port and /health/live
// The request goes to this container only and carries no secret, so the certificate is not verified.
// If clients of the operating API need a certificate, it is the one of the commands.
import { readFileSync } from "node:fs"
import http from "node:http"
import https from "node:https"

const [, , port = process.env.ROLLCALL_HTTP_PORT || 8477, path = "/health/live"] = process.argv

const read = (variable) => process.env[variable] ? readFileSync(process.env[variable]) : undefined
const certificate = {
  cert: read("ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE"),
  key: read("ROLLCALL_HTTP_TLS_CLIENT_KEY_FILE")
}

const answers = (client) =>
  new Promise((resolve) => {
    const request = client.get(
      { host: "127.0.0.1", port, path, timeout: 2000, rejectUnauthorized: false, ...certificate },
      (response) => {
        response.resume()
        resolve(response.statusCode === 200)
      }
    )
    request.on("timeout", () => request.destroy())
    request.on("error", () => resolve(false))
  })

process.exit(await answers(http) || await answers(https) ? 0 : 1)

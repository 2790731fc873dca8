package com.example;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.stereotype.Component;
import org.springframework.web.filter.OncePerRequestFilter;

/** Asks tollgate before each request, and refuses the request or adds the response fields. */
@Component
@Order(Ordered.HIGHEST_PRECEDENCE + 10)
public class TollgateFilter extends OncePerRequestFilter {
    private final URI check;
    private final Duration timeout;
    private final boolean failOpen;
    private final ObjectMapper json = new ObjectMapper();
    private final HttpClient client;

    /**
     * @param url tollgate's HTTP listener
     * @param timeout the time for the whole call; tollgate usually answers within a millisecond
     * @param failOpen what happens while tollgate does not answer: {@code true} allows every request, uncounted;
     *     {@code false} refuses it with 503
     */
    public TollgateFilter(
            @Value("${tollgate.url:http://127.0.0.1:8080}") URI url,
            @Value("${tollgate.timeout:250ms}") Duration timeout,
            @Value("${tollgate.fail-open:false}") boolean failOpen) {
        this.check = url.resolve("/v1/check");
        this.timeout = timeout;
        this.failOpen = failOpen;
        // One client keeps its connections open. By default it would ask for HTTP/2 with each new one.
        this.client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(timeout).build();
    }

    @Override
    protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws ServletException, IOException {
        HttpResponse<String> answer = ask(request);
        int status = answer == null ? 0 : answer.statusCode();
        if (status == 400 || status == 413) {
            // Too many or too large header fields. Never allowed: else they would be a way around the limits.
            refuse(response, 400);
            return;
        }
        if (status != 200) {
            if (failOpen) {
                chain.doFilter(request, response);
            } else {
                refuse(response, 503);
            }
            return;
        }
        JsonNode verdict = json.readTree(answer.body());
        addFields(response, verdict);
        if (!verdict.get("allowed").asBoolean()) {
            boolean denied = verdict.get("action").asText().equals("deny");
            boolean fallback = verdict.get("source").asText().equals("fallback");
            refuse(response, denied ? 403 : fallback ? 503 : 429);
            return;
        }
        awaitPlace(verdict.path("delay_ms").asLong());
        chain.doFilter(request, response);
    }

    /** The response, or null if there is none in time. */
    private HttpResponse<String> ask(HttpServletRequest request) throws IOException {
        HttpRequest question = HttpRequest.newBuilder(check)
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(json.writeValueAsString(describe(request))))
                .build();
        CompletableFuture<HttpResponse<String>> call =
                client.sendAsync(question, HttpResponse.BodyHandlers.ofString());
        try {
            // The timeout of a request would end when the head of the response arrives.
            return call.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException | TimeoutException error) {
            call.cancel(true);
            logger.warn("tollgate does not answer: " + error);
            return null;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IOException(error);
        }
    }

    private static Map<String, Object> describe(HttpServletRequest request) {
        Map<String, String> headers = new LinkedHashMap<>();
        for (String name : Collections.list(request.getHeaderNames())) {
            headers.put(name.toLowerCase(), String.join(", ", Collections.list(request.getHeaders(name))));
        }
        // The address of the connection. Behind a proxy: server.forward-headers-strategy
        return Map.of(
                "ip", request.getRemoteAddr(),
                "method", request.getMethod(),
                "path", request.getRequestURI(),
                "headers", headers);
    }

    private static void addFields(HttpServletResponse response, JsonNode verdict) {
        // None if no rule applies.
        if (verdict.get("limit").isNull()) {
            return;
        }
        String remaining = verdict.get("remaining").asText();
        response.setHeader("RateLimit", "\"" + verdict.get("rule").asText() + "\";r=" + remaining);
        response.setHeader("X-RateLimit-Limit", verdict.get("limit").asText());
        response.setHeader("X-RateLimit-Remaining", remaining);
        if (!verdict.get("retry_after_ms").isNull()) {
            long seconds = (verdict.get("retry_after_ms").asLong() + 999) / 1000;
            response.setHeader("Retry-After", Long.toString(seconds));
        }
    }

    private static void refuse(HttpServletResponse response, int status) throws IOException {
        response.setStatus(status);
        response.setContentType("application/json");
        response.getWriter().write("{\"error\":\"refused\"}");
    }

    /** Waits for the place in the queue of a rule. */
    private static void awaitPlace(long delayMs) throws IOException {
        try {
            Thread.sleep(delayMs);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IOException(error);
        }
    }
}

package functions;

import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Map;
import org.springframework.http.HttpStatus;
import org.springframework.stereotype.Component;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestControllerAdvice;
import org.springframework.web.filter.OncePerRequestFilter;
import org.springframework.web.util.ContentCachingRequestWrapper;

/** What Spring Cloud Function leaves to HTTP: the headers of every answer, and the status of what was refused. */
@Component
@RestControllerAdvice
public class Front extends OncePerRequestFilter {
  private static final int MAX_BODY_BYTES = 1 << 20;
  private static final String COLD = "cold";

  private final Instance instance;

  Front(Instance instance) {
    this.instance = instance;
  }

  static boolean isCold(HttpServletRequest request) {
    return (boolean) request.getAttribute(COLD);
  }

  /** Whether a request means to be a CloudEvent, right or wrong. */
  static boolean meansEvent(HttpServletRequest request) {
    String kind = request.getContentType();
    boolean isStructured = kind != null && kind.startsWith("application/cloudevents+json");
    return isStructured || request.getHeader("ce-specversion") != null;
  }

  @Override
  protected boolean shouldNotFilter(HttpServletRequest request) {
    return !request.getRequestURI().equals("/");
  }

  @Override
  protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
      throws ServletException, IOException {
    boolean cold = instance.isCold();
    request.setAttribute(COLD, cold);
    response.setHeader("X-Instance", instance.name());
    response.setHeader("X-Cold-Start", String.valueOf(cold));
    chain.doFilter(new Bounded(request), response);
  }

  @ExceptionHandler
  @ResponseStatus(HttpStatus.BAD_REQUEST)
  Map<String, String> refuse(Refused refused) {
    return Map.of("error", refused.getMessage());
  }

  @ExceptionHandler
  @ResponseStatus(HttpStatus.PAYLOAD_TOO_LARGE)
  Map<String, String> refuse(TooLarge refused) {
    return Map.of("error", "a body may have 1 MiB");
  }

  private static final class TooLarge extends RuntimeException {
    private static final long serialVersionUID = 1;
  }

  private static final class Bounded extends ContentCachingRequestWrapper {
    Bounded(HttpServletRequest request) {
      super(request, MAX_BODY_BYTES);
    }

    @Override
    protected void handleContentOverflow(int limit) {
      throw new TooLarge();
    }
  }
}

import com.example.TollgateFilter;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;

/** Serves the filter in Tomcat on a free port, and prints the port. The argument is a directory for Tomcat's files. */
public class ServeSpring {
    public static void main(String[] arguments) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(arguments[0]);
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        tomcat.getConnector().setProperty("maxHeaderCount", "1000");
        Context context = tomcat.addContext("", Path.of(arguments[0]).toString());
        double seconds = Double.parseDouble(System.getenv().getOrDefault("TOLLGATE_TIMEOUT_SECONDS", "0.25"));
        FilterDef definition = new FilterDef();
        definition.setFilterName("tollgate");
        definition.setFilter(new TollgateFilter(
                URI.create(System.getenv("TOLLGATE_URL")),
                Duration.ofMillis((long) (seconds * 1000)),
                Boolean.parseBoolean(System.getenv("TOLLGATE_FAIL_OPEN"))));
        context.addFilterDef(definition);
        FilterMap mapping = new FilterMap();
        mapping.setFilterName("tollgate");
        mapping.addURLPattern("/*");
        context.addFilterMap(mapping);
        Tomcat.addServlet(context, "hello", new Hello());
        context.addServletMappingDecoded("/", "hello");
        tomcat.start();
        System.out.println(tomcat.getConnector().getLocalPort());
        tomcat.getServer().await();
    }

    private static final class Hello extends HttpServlet {
        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.setContentType("application/json");
            response.getWriter().write("{\"hello\":\"world\"}");
        }
    }
}

<?php
// The content through a small MVC on Swoole, like the document's spf mvc demo: swoole_mvc.php HOST PORT.
// /demo/index/index calls actionIndex of the controller index.
abstract class Controller
{
    public $request;
    public $response;

    public function __construct($request, $response)
    {
        $this->request = $request;
        $this->response = $response;
    }
}

final class IndexController extends Controller
{
    public function actionIndex(): void
    {
        $this->response->header('Last-Modified', 'Tue, 26 Jul 2016 10:24:27 GMT');
        $this->response->header('E-Tag', '55829c5b-17');
        $this->response->header('Accept-Ranges', 'bytes');
        $this->response->end(getenv('RACE_CONTENT'));
    }
}

final class Router
{
    private const CONTROLLERS = ['demo' => ['index' => IndexController::class]];

    public function dispatch($request, $response): void
    {
        $parts = explode('/', trim($request->server['request_uri'], '/'));
        [$module, $controller, $action] = array_pad($parts, 3, 'index');
        $class = self::CONTROLLERS[$module][$controller] ?? null;
        $method = 'action' . ucfirst($action);
        if ($class === null || !method_exists($class, $method)) {
            $response->status(404);
            $response->end('Not Found');
            return;
        }
        (new $class($request, $response))->$method();
    }
}

$http = new Swoole\Http\Server($argv[1], (int) $argv[2], SWOOLE_BASE);
$http->set(['worker_num' => 1, 'backlog' => 4096, 'log_level' => 5, 'http_compression' => false]);
$http->on('request', [new Router(), 'dispatch']);
$http->start();

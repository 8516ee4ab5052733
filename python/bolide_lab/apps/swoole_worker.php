<?php
// The content through a worker class, like the document's spf http: swoole_worker.php HOST PORT.
interface IWorker
{
    public function onRequest($request, $response);
}

abstract class Base
{
    protected $content;
    protected $target;

    public function __construct()
    {
        $this->content = getenv('RACE_CONTENT');
        $this->target = getenv('RACE_TARGET');
    }

    public function start(string $host, int $port): void
    {
        $http = new Swoole\Http\Server($host, $port, SWOOLE_BASE);
        $http->set(['worker_num' => 1, 'backlog' => 4096, 'log_level' => 5, 'http_compression' => false]);
        $http->on('request', [$this, 'onRequest']);
        $http->start();
    }
}

final class DemoWorker extends Base implements IWorker
{
    public function onRequest($request, $response)
    {
        $response->header('Last-Modified', 'Tue, 26 Jul 2016 10:24:27 GMT');
        $response->header('E-Tag', '55829c5b-17');
        $response->header('Accept-Ranges', 'bytes');
        if ($request->server['request_uri'] !== $this->target) {
            $response->status(404);
            $response->end('Not Found');
            return;
        }
        $response->end($this->content);
    }
}

(new DemoWorker())->start($argv[1], (int) $argv[2]);

<?php
// The content from Swoole's own HTTP server: swoole_plain.php HOST PORT [WORKERS].
$content = getenv('RACE_CONTENT');
$target = getenv('RACE_TARGET');
$workers = (int) ($argv[3] ?? 1);
$http = new Swoole\Http\Server($argv[1], (int) $argv[2], SWOOLE_BASE);
$http->set(['worker_num' => $workers, 'backlog' => 4096, 'log_level' => 5, 'http_compression' => false]);

$http->on('request', function ($request, $response) use ($content, $target) {
    $response->header('Last-Modified', 'Tue, 26 Jul 2016 10:24:27 GMT');
    $response->header('E-Tag', '55829c5b-17');
    $response->header('Accept-Ranges', 'bytes');
    if ($request->server['request_uri'] !== $target) {
        $response->status(404);
        $response->end('Not Found');
        return;
    }
    $response->end($content);
});
$http->start();

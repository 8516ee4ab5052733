<?php
// The content from PHP under php-fpm. Without Content-Length, nginx would close HTTP/1.0 connections.
$content = getenv('RACE_CONTENT');
header('Content-Type: text/plain');
header('Content-Length: ' . strlen($content));
echo $content;

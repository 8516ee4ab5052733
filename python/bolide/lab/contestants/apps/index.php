<?php
// The content from PHP under php-fpm.
header('Content-Type: text/plain');
echo getenv('RACE_CONTENT');

// Serves one instance of the function on PORT.
import { start } from 'faas-js-runtime';
import * as instance from './instance';

void start(instance, { port: Number(process.env.PORT || '8080') });

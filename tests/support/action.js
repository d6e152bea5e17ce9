function main(args) { return {body: "hello"}; }
